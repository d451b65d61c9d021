/* Is every lawless plugin refused, each with exactly its sentence, and the lawful one served?
 *
 * The plugins are bad.c built once a broken rule; PLUGINS is the folder that holds them. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/optim.h>

#include "bad.h"
#include "base/err.h"
#include "host/host.h"

#include <test.h>
#undef fail /* the host table has a member of that name */

static const char *const rules[] = {"weft.rule/1", NULL};
static const char *const links[] = {"weft.coll/1", "weft.link/1", NULL};

static host *hosts(const char *dirs)
{
    host *h = NULL;
    assert_int_equal(host_create(dirs, &h), WEFT_OK);
    return h;
}

/* `name` of the folder `kind` ends with `sentence`; "PATH" in it stands for the file's path. */
static void refused(const char *kind, const char *name, const char *const *ifaces,
                    const char *sentence)
{
    host *h = hosts(PLUGINS);
    const host_component *c = NULL;
    char wanted[1024];
    if (!strncmp(sentence, "PATH", 4))
        snprintf(wanted, sizeof wanted, "%s/%s/%s.so%s", PLUGINS, kind, name, sentence + 4);
    else
        snprintf(wanted, sizeof wanted, "%s", sentence);
    const weft_status st = host_find(h, kind, name, ifaces, &c);
    assert_true(st == WEFT_USAGE || st == WEFT_UNSUPPORTED);
    assert_null(c);
    assert_string_equal(err_text(), wanted);
    host_destroy(h);
}

static const struct {
    const char *name, *sentence;
} manifests[] = {
    {"returns_null", "PATH: its weft_plugin_entry() returned NULL"},
    {"magic", "PATH: manifest field magic is 0x12345678 instead of 0x54464557; this is not a weft "
              "plugin"},
    {"major",
     "PATH: manifest field abi_major is 1, this program has 0; build the plugin again with "
     "the headers of this program"},
    {"minor",
     "PATH: manifest field abi_minor is 8, this program needs 9 or later; build the plugin again "
     "with the headers of this program"},
    {"tag",
     "PATH: manifest field abi_tag is 0x4, this program has 0x804d20808; the plugin was built "
     "for another kind of machine"},
    {"size", "PATH: weft.test: its manifest has 72 bytes, at least 80 are needed"},
    {"flags",
     "PATH: manifest field flags is 2, this program has 0; build the plugin again with the "
     "headers of this program"},
    {"id", "PATH: manifest field id is not made of a-z, 0-9, '.' and '_'"},
    {"no_open", "PATH: manifest field open is NULL"},
    {"no_components", "PATH: manifest field components is NULL"},
    {"empty", "PATH: manifest lists no components"},
    {"component_size", "PATH: weft.test: its component has 40 bytes, at least 56 are needed"},
    {"name_slash", "PATH: component name '../good' is not made of a-z, 0-9, single '.' and '_'"},
    {"name_dots", "PATH: component name 'go..od' is not made of a-z, 0-9, single '.' and '_'"},
    {"name_long", "PATH: component name 'a.name.that.is.longer.than.sixty.three.bytes.and.then.even"
                  ".longe' is not made of a-z, 0-9, single '.' and '_'"},
    {"component_flags", "PATH: component 'good' has flags 0x4; 0 is expected"},
    {"iface_garbage", "PATH: component 'good' has the interface 'weft.rule/1x', which is not "
                      "name/major"},
    {"iface_bare", "PATH: component 'good' has the interface 'weft.rule', which is not name/major"},
    {"no_help", "PATH: component 'good' has no line of help"},
    {"option_key", "PATH: component 'good': an option whose key is not made of a-z, 0-9 and '_', 1 "
                   "to 48 bytes"},
    {"option_default", "PATH: component 'good': the default of option 'momentum' is invalid: "
                       "'fast' is not a number"},
    {"option_twice", "PATH: component 'good' has two options 'momentum'"},
    {"no_table", "PATH: component 'good': its weft.rule/1 table is NULL"},
    {"short_table", "PATH: good: its weft.rule/1 table has 8 bytes, at least 16 are needed"},
    {"huge_table",
     "PATH: good: its weft.rule/1 table claims 4294967295 bytes; set struct_size to its sizeof"},
    {"grown_table", "PATH: good: its weft.rule/1 table has 24 bytes and uses byte 16; this program "
                    "knows 16 bytes of it, so the plugin needs a newer weft"},
    {"missing_slot",
     "PATH: component 'good': its weft.rule/1 table has NULL for 'update', which is "
     "mandatory"},
    {"promised_slot", "PATH: component 'mapper': its weft.link/1 table has NULL for 'map', which "
                      "its caps promise"},
    {"twice", "PATH: component 'good' of weft.rule/1 is listed twice"},
    {"op_bare", "PATH: component 'twice': ids of ops without a dot are those that come with weft; "
                "give it yours, such as acme.twice"},
    {"iface_newer", "PATH has no component 'iface_newer' of weft.rule/1; it has 'good' of "
                    "weft.rule/2 (this program knows weft.rule/1), 'good_too' of weft.rule/1, "
                    "'acme.twice' of weft.op/1, 'rail' of org.acme.rail/3"},
    {"no_entry", "PATH: it does not export weft_plugin_entry; it is not a weft plugin"},
    {"borrowed", "PATH: its weft_plugin_entry is that of " PLUGINS "/libborrow.so, to which it "
                 "links; a plugin exports its own"},
};

TEST(lawless_plugins_are_refused)
{
    for (size_t i = 0; i < sizeof manifests / sizeof *manifests; i++)
        refused("optim", manifests[i].name, rules, manifests[i].sentence);
}

TEST(a_refusal_is_the_same_twice)
{
    host *h = hosts(PLUGINS);
    const host_component *c = NULL;
    for (int i = 0; i < 2; i++) {
        err_clear();
        assert_int_equal(host_find(h, "optim", "no_open", rules, &c), WEFT_USAGE);
        assert_string_equal(err_text(), PLUGINS "/optim/no_open.so: manifest field open is NULL");
    }
    host_destroy(h);
}

TEST(a_lawful_component_is_found)
{
    host *h = hosts("/nowhere:" PLUGINS "/one");
    const host_component *c = NULL, *too = NULL, *op[2] = {NULL, NULL};
    assert_int_equal(host_find(h, "optim", "good", rules, &c), WEFT_OK);
    assert_string_equal(c->kind, "optim");
    assert_string_equal(c->iface, "weft.rule/1");
    assert_string_equal(c->path, PLUGINS "/one/optim/good.so");
    assert_string_equal(c->options[1]->key, "nesterov");
    assert_null(c->options[2]);
    assert_null(c->module);
    const weft_rule *rule = c->table;
    assert_int_equal(rule->struct_size, sizeof(weft_rule));
    assert_non_null(rule->update);

    assert_int_equal(host_find(h, "optim", "good_too", rules, &too), WEFT_OK);
    assert_ptr_equal(too->manifest, c->manifest);
    assert_non_null(too->options);
    assert_null(too->options[0]);
    assert_int_equal(host_used(h, "weft.op/1", op, 2), 0); /* loaded, but not used */
    assert_int_equal(host_use(h, c), WEFT_OK);
    assert_int_equal(host_use(h, too), WEFT_OK); /* the same object */
    assert_int_equal(host_used(h, "weft.op/1", op, 2), 1);
    assert_string_equal(op[0]->name, "acme.twice");
    assert_string_equal(op[0]->kind, "op");
    assert_int_equal(host_used(h, "weft.rule/1", op, 1), 2);
    assert_int_equal(host_used(h, "org.acme.rail/3", op, 1), 0);
    host_destroy(h);
}

TEST(a_job_names_files_of_ops)
{
    host *h = hosts(PLUGINS "/one:" PLUGINS "/again");
    const host_component *c = NULL;
    assert_int_equal(host_use_named(h, "acme.twise", NULL), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "did you mean 'acme.twice'?"));
    err_clear();
    assert_int_equal(host_use_named(h, "goood", NULL), WEFT_USAGE); /* near the name of a file */
    assert_non_null(strstr(err_text(), "did you mean 'good'?"));
    err_clear();
    assert_int_equal(host_use_named(h, "a/b", NULL), WEFT_USAGE);
    err_clear();
    assert_int_equal(host_used(h, "weft.op/1", &c, 1), 0);

    assert_int_equal(host_use_named(h, "good", NULL), WEFT_OK);
    assert_int_equal(host_used(h, "weft.op/1", &c, 1), 1);
    assert_string_equal(c->path, PLUGINS "/one/optim/good.so");
    assert_int_equal(host_use_named(h, "good", NULL), WEFT_OK); /* the same file */
    assert_int_equal(host_used(h, "weft.op/1", &c, 1), 1);
    assert_int_equal(host_use_named(h, "again", NULL), WEFT_USAGE);
    assert_non_null(strstr(err_text(), "the op 'acme.twice' is in " PLUGINS "/one/optim/good.so "
                                       "and in " PLUGINS "/again/op/again.so"));
    host_destroy(h);

    h = hosts(PLUGINS "/again"); /* a rule in a folder of another kind */
    assert_int_equal(host_find(h, "optim", "good_too", rules, &c), WEFT_OK);
    assert_string_equal(c->kind, "optim");
    const host_component **all;
    uint32_t n;
    host_list(h, NULL, &all, &n);
    uint32_t rules_seen = 0, ops_seen = 0;
    for (uint32_t k = 0; k < n; k++)
        if (!strcmp(all[k]->path, PLUGINS "/again/op/again.so") && all[k]->iface) {
            rules_seen += !strcmp(all[k]->kind, "optim");
            ops_seen += !strcmp(all[k]->kind, "op");
        }
    assert_int_equal(host_use_named(h, "acme.twice", NULL), WEFT_OK); /* a component of again.so */
    assert_int_equal(host_used(h, "weft.op/1", &c, 1), 1);
    assert_int_equal(rules_seen, 2);
    assert_int_equal(ops_seen, 1);
    host_destroy(h);
}

TEST(a_grown_table_is_cut_to_what_is_known)
{
    host *h = hosts(PLUGINS "/newer");
    const host_component *c = NULL;
    assert_int_equal(host_find(h, "optim", "good", rules, &c), WEFT_OK);
    assert_int_equal(c->manifest->abi_minor, WEFT_ABI_MINOR + 1);
    host_destroy(h);
    h = hosts(PLUGINS "/grown");
    assert_int_equal(host_find(h, "optim", "good", rules, &c), WEFT_OK);
    assert_int_equal(((const weft_rule *)c->table)->struct_size, sizeof(weft_rule));
    host_destroy(h);
}

TEST(what_is_not_there_has_a_neighbour)
{
    host *h = hosts(PLUGINS "/one");
    const host_component *c = NULL;
    char exe[512], wanted[1024];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    assert_true(n > 0);
    exe[n] = 0;
    for (int up = 0; up < 2; up++)
        *strrchr(exe, '/') = 0;
    assert_int_equal(host_find(h, "optim", "god_too", rules, &c), WEFT_USAGE);
    snprintf(wanted, sizeof wanted,
             "no optim plugin 'god_too' in %s/optim, %s/lib/weft/optim; run.plugins and "
             "WEFT_PLUGIN_PATH name further folders; did you mean 'good_too'?",
             PLUGINS "/one", exe);
    assert_memory_equal(err_text(), wanted, strlen(wanted));
    assert_int_equal(host_find(h, "comm", "good", links, &c), WEFT_USAGE);
    snprintf(wanted, sizeof wanted, "no comm plugin 'good' in %s/comm, %s/lib/weft/comm",
             PLUGINS "/one", exe);
    assert_memory_equal(err_text(), wanted, strlen(wanted));
    host_destroy(h);
}

TEST(one_file_is_one_object)
{
    char dir[] = "/tmp/weft-abi-XXXXXX", folder[64], other[128], file[128];
    assert_non_null(mkdtemp(dir));
    snprintf(folder, sizeof folder, "%s/optim", dir);
    snprintf(file, sizeof file, "%s/good.so", folder);
    snprintf(other, sizeof other, "%s/another.so", folder);
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(symlink(PLUGINS "/one/optim/good.so", file), 0);
    assert_int_equal(symlink(PLUGINS "/one/optim/good.so", other), 0);
    char dirs[1024];
    snprintf(dirs, sizeof dirs, "%s:%s/one", dir, PLUGINS);
    host *h = hosts(dirs);
    const host_component *c = NULL, *again = NULL, **all = NULL;
    uint32_t n = 0, found = 0;
    assert_int_equal(host_find(h, "optim", "good", rules, &c), WEFT_OK);
    assert_int_equal(host_find(h, "optim", "good", rules, &again), WEFT_OK);
    assert_ptr_equal(c, again);
    host_list(h, NULL, &all, &n);
    for (uint32_t i = 0; i < n; i++)
        found += !strcmp(all[i]->name, "good") && all[i]->iface;
    assert_int_equal(found, 1);
    host_destroy(h);
    unlink(file);
    unlink(other);
    rmdir(folder);
    rmdir(dir);
}

TEST(a_list_has_the_lawful_and_the_lawless)
{
    host *h = hosts(PLUGINS);
    const host_component **all = NULL;
    uint32_t n = 0, usable = 0, unusable = 0;
    bool saw_minor = false, saw_rail = false;
    host_list(h, NULL, &all, &n);
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            assert_true(strcmp(all[i - 1]->kind, all[i]->kind) < 0 ||
                        (!strcmp(all[i - 1]->kind, all[i]->kind) &&
                         strcmp(all[i - 1]->name, all[i]->name) <= 0));
        usable += all[i]->iface != NULL;
        unusable += !all[i]->iface;
        saw_minor = saw_minor || (!strcmp(all[i]->name, "minor") && !all[i]->iface &&
                                  strstr(all[i]->help, "abi_minor is 8"));
        saw_rail = saw_rail || (!strcmp(all[i]->name, "rail") && !all[i]->iface &&
                                !strcmp(all[i]->help, "this program does not know the interface "
                                                      "org.acme.rail/3"));
    }
    assert_true(saw_minor && saw_rail);
    assert_true(usable >= 3 && unusable >= 28);
    host_destroy(h);
}

/* What a plugin writes to standard error, caught. */
static void catch (char *out, size_t size, void (*what)(host *), host *h)
{
    int saved = dup(2), pipes[2];
    assert_int_equal(pipe(pipes), 0);
    dup2(pipes[1], 2);
    what(h);
    dup2(saved, 2);
    close(saved);
    close(pipes[1]);
    ssize_t n = read(pipes[0], out, size - 1);
    out[n > 0 ? n : 0] = 0;
    close(pipes[0]);
}

static void open_good(host *h)
{
    const host_component *c = NULL;
    assert_int_equal(host_find(h, "optim", "good", rules, &c), WEFT_OK);
    assert_int_equal(host_open(h, c), WEFT_OK);
    assert_int_equal(host_open(h, c), WEFT_OK);
}

TEST(a_module_is_served)
{
    static const int tls = 7;
    char said[256];
    host *h = hosts(PLUGINS "/one");
    const host_component *c = NULL, *too = NULL;
    host_serve(h, "weft.host.tls/1", &tls);
    catch (said, sizeof said, open_good, h);
    assert_string_equal(said, "weft warn: weft.test: open and ready\n");
    assert_int_equal(host_find(h, "optim", "good", rules, &c), WEFT_OK);
    assert_int_equal(host_find(h, "optim", "good_too", rules, &too), WEFT_OK);
    const bad_module *m = c->module;
    assert_non_null(m);
    assert_ptr_equal(m, too->module);
    assert_ptr_equal(m->tls, &tls);
    assert_int_equal((uintptr_t)m->block % 4096, 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(((const char *)m->block)[i], 0);
    const weft_host *t = m->host;
    assert_int_equal(t->struct_size, sizeof *t);
    assert_int_equal(t->abi_minor, WEFT_ABI_MINOR);
    assert_null(t->iface(t->ctx, "weft.host.none/1"));
    assert_null(t->iface(t->ctx, NULL));
    assert_null(t->alloc(t->ctx, 8, 24));
    assert_null(t->alloc(t->ctx, UINT64_MAX, 0));
    assert_int_equal(t->log_enabled(t->ctx, WEFT_LOG_DEBUG), 0);
    assert_int_equal(t->log_enabled(t->ctx, WEFT_LOG_ERROR), 1);
    err_clear();
    assert_int_equal(t->fail(t->ctx, WEFT_BUSY, "not a failure"), WEFT_BUSY);
    assert_string_equal(err_text(), "");
    assert_int_equal(t->fail(t->ctx, WEFT_IO, NULL), WEFT_IO);
    assert_string_equal(err_text(), "plugin weft.test: no reason given");
    host_destroy(h);
}

TEST(failing_to_open_is_told)
{
    host *h = hosts(PLUGINS "/broken");
    const host_component *c = NULL;
    err_clear();
    assert_int_equal(host_find(h, "optim", "good", rules, &c), WEFT_OK);
    assert_int_equal(host_open(h, c), WEFT_ABSENT);
    assert_string_equal(err_text(),
                        "opening for the test: plugin weft.test: there is no such device");
    assert_null(c->module);
    host_destroy(h);
    h = hosts(PLUGINS "/silent");
    assert_int_equal(host_find(h, "optim", "good", rules, &c), WEFT_OK);
    assert_int_equal(host_open(h, c), WEFT_IO);
    assert_string_equal(err_text(),
                        "plugin weft.test: its open() failed without a reason (status 5, WEFT_IO)");
    host_destroy(h);
}

/* A plugin adds to a record of the core's or its own, and replaces another plugin's old one. */
TEST(records_are_joined)
{
    char said[256];
    host *h = hosts(PLUGINS "/one"), *g = hosts(PLUGINS "/grown");
    const host_component *c = NULL, *d = NULL;
    catch (said, sizeof said, open_good, h);
    catch (said, sizeof said, open_good, g);
    assert_int_equal(host_find(h, "optim", "good", rules, &c), WEFT_OK);
    assert_int_equal(host_find(g, "optim", "good", rules, &d), WEFT_OK);
    const weft_host *one = ((const bad_module *)c->module)->host;
    const weft_host *two = ((const bad_module *)d->module)->host;
    err_clear();
    (void)!one->fail(one->ctx, WEFT_IO, "no");
    (void)!one->fail(one->ctx, WEFT_IO, "asked twice");
    assert_string_equal(err_text(), "asked twice: plugin weft.test: no");
    (void)!err_fail_in(WEFT_IO, ERR_PLUGIN, "weft.other", "no");
    (void)!two->fail(two->ctx, WEFT_IO, "mine");
    assert_string_equal(err_text(), "plugin weft.test: mine");
    err_clear();
    err_context("the core's own words");
    (void)!two->fail(two->ctx, WEFT_IO, "then mine");
    assert_memory_equal(err_text(), "then mine: the core's own words", 31);
    host_destroy(h);
    catch (said, sizeof said, host_destroy, g);
}

TEST(memory_left_behind_is_told)
{
    char said[256];
    host *h = hosts(PLUGINS "/leaks");
    catch (said, sizeof said, open_good, h);
    catch (said, sizeof said, host_destroy, h);
    assert_string_equal(said, "weft warn: plugin weft.test has closed without giving back 1 blocks "
                              "of memory\n");
}
