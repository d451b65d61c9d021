/* Findings about ranks whose reports differ or whose measurements are bad. */
#include "doctor/compare.h"
#include "doctor/report.h"

#include <string.h>

#include <test.h>

/* A report with one check. */
static json_t *report(const char *host, const char *check, json_t *facts)
{
    return json_pack("{s:s, s:s, s:[{s:s, s:o}]}", "host", host, "boot", host, "checks", "id",
                     check, "facts", facts);
}

/* The sentence of the only finding; "" where there is none. */
static const char *compared(json_t **reports, uint32_t n, const char *level)
{
    static char what[1024];
    json_t *list = doctor_compare_reports(reports, n);
    assert_true(json_array_size(list) <= 1);
    const json_t *first = json_array_get(list, 0);
    snprintf(what, sizeof what, "%s", doctor_report_text(first, "what"));
    if (level)
        assert_string_equal(doctor_report_text(first, "level"), level);
    if (first)
        assert_true(*doctor_report_text(first, "why") && *doctor_report_text(first, "type"));
    json_decref(list);
    for (uint32_t r = 0; r < n; r++)
        json_decref(reports[r]);
    return what;
}

TEST(ranks_in_words)
{
    pool p = {0};
    const bool one[] = {0, 0, 1, 0}, some[] = {1, 1, 1, 0, 1, 0, 1, 1}, none[] = {0, 0};
    assert_string_equal(doctor_rank_list(&p, one, 4), "rank 2");
    assert_string_equal(doctor_rank_list(&p, some, 8), "ranks 0-2, 4, 6-7");
    assert_string_equal(doctor_rank_list(&p, none, 2), "ranks none");
    pool_free(&p);
}

TEST(equal_and_nearly_equal)
{
    json_t *same[] = {report("a", "network", json_pack("{s:i}", "eth0.mtu", 9000)),
                      report("b", "network", json_pack("{s:i}", "eth0.mtu", 9000))};
    assert_string_equal(compared(same, 2, NULL), "");
    json_t *near[] = {report("a", "memory", json_pack("{s:i}", "total", 1000)),
                      report("b", "memory", json_pack("{s:i}", "total", 960))};
    assert_string_equal(compared(near, 2, NULL), "");
    json_t *far[] = {report("a", "memory", json_pack("{s:i}", "total", 1000)),
                     report("b", "memory", json_pack("{s:i}", "total", 940))};
    assert_string_equal(compared(far, 2, "note"),
                        "the size of memory differs: 1000 on rank 0 (a), 940 on rank 1 (b)");
}

/* Machines may name their interfaces as they like. */
TEST(other_names_of_devices)
{
    json_t *other[] = {report("a", "network", json_pack("{s:i}", "eth0.mtu", 9000)),
                       report("b", "network", json_pack("{s:i}", "ens3.mtu", 1500))};
    assert_string_equal(compared(other, 2, NULL), "");
    json_t *later[] = {report("a", "network", json_pack("{s:i}", "eth0.mtu", 9000)),
                       report("b", "network", json_pack("{s:i}", "ens3.mtu", 9000)),
                       report("c", "network", json_pack("{s:i}", "ens3.mtu", 1500))};
    assert_string_equal(compared(later, 3, "warning"),
                        "the MTU of ens3 differs: 9000 on rank 1 (b), 1500 on rank 2 (c)");
}

TEST(one_rank_has_none)
{
    json_t *r[] = {report("a", "libnccl", json_pack("{s:s}", "version", "2.28.9")),
                   report("b", "libnccl", json_object())};
    assert_string_equal(compared(r, 2, "warning"),
                        "the version of NCCL differs: 2.28.9 on rank 0 (a), none on rank 1 (b)");
}

TEST(clocks)
{
    json_t *near[] = {report("a", "path", json_pack("{s:i}", "skew_ms", 0)),
                      report("b", "path", json_pack("{s:i}", "skew_ms", 30))};
    assert_string_equal(compared(near, 2, NULL), "");
    json_t *far[] = {report("a", "path", json_pack("{s:i}", "skew_ms", 0)),
                     report("b", "path", json_pack("{s:i}", "skew_ms", -90500))};
    assert_string_equal(compared(far, 2, "note"),
                        "the clock of rank 1 (b) is 90.5 s behind of rank 0's");
}

TEST(long_packets)
{
    json_t *pass[] = {report("a", "path", json_pack("{s:i}", "from.1", 9000)),
                      report("b", "path", json_pack("{s:i}", "probed", 9000))};
    assert_string_equal(compared(pass, 2, NULL), "");
    json_t *silent[] = {report("a", "path", json_object()), /* a firewall, most likely */
                        report("b", "path", json_pack("{s:i}", "probed", 9000))};
    assert_string_equal(compared(silent, 2, NULL), "");
    json_t *stuck[] = {report("a", "path", json_pack("{s:i}", "from.1", 92)),
                       report("b", "path", json_pack("{s:i}", "probed", 9000))};
    assert_string_equal(compared(stuck, 2, "warning"),
                        "packets of 9000 bytes from rank 1 (b) do not reach rank 0, and short ones "
                        "do");
}

TEST(long_ways)
{
    for (int us = 900; us <= 9000; us += 8100) {
        json_t *r[] = {
            report("a", "path", json_object()),
            report("b", "path", json_pack("{s:i, s:i}", "round_trip_us", us, "speed", 10000))};
        json_t *sockets = json_pack("{s:s, s:{s:i, s:i}}", "id", "sockets", "facts", "in", 6291456,
                                    "out", 4194304);
        json_array_append_new(json_object_get(r[1], "checks"), sockets);
        assert_string_equal(compared(r, 2, us > 1000 ? "warning" : NULL),
                            us > 1000
                                ? "rank 1 has a round trip of 9.0 ms to rank 0; at 10 Gbit/s that "
                                  "needs a larger buffer than the 4 MiB that a connection may have"
                                : "");
    }
}

/* What another rank sends need not have any of what is looked for. */
TEST(reports_that_are_none)
{
    const char *text[] = {"{}", "{\"checks\": 5}",
                          "{\"checks\": [1, {\"id\": 7}, {\"id\": "
                          "\"network\", \"facts\": [\"eth0.mtu\"]}]}",
                          "{\"host\": [], \"checks\": [{\"id\": \"path\", \"facts\": {\"skew_ms\": "
                          "\"x\", \"from.1\": {}, \"mtu\": []}}]}"};
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        json_t *r[] = {json_loads(text[i], 0, NULL), json_loads("{}", 0, NULL)};
        assert_non_null(r[0]);
        json_t *list = doctor_compare_reports(r, 2);
        json_decref(list);
        json_decref(r[0]);
        json_decref(r[1]);
    }
}

TEST(reports_from_others)
{
    const char *bad[] = {"",
                         "5",
                         "[]",
                         "{",
                         "{\"a\": 1, \"a\": 2}",
                         "{\"a\": \"\\u001b[2J\"}",
                         "{\"a\": \"\\u0000b\"}",
                         "{\"a\": \"\\u00e9\"}",
                         "{\"\\u0007\": 1}",
                         "{\"a\": \"\xff\"}",
                         "{\"a\": [[[[[[[[[[1]]]]]]]]]]}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_null(doctor_report_read(bad[i], strlen(bad[i])));
    const char good[] = "{\"host\": \"a\", \"checks\": [{\"facts\": {\"x\": [1]}}]}";
    json_t *x = doctor_report_read(good, sizeof good - 1);
    assert_string_equal(doctor_report_text(x, "host"), "a");
    json_decref(x);
}
