/* Key files and descriptors: what is written, what is refused, and derived keys against OpenSSL's
 * own HMAC, by the definition of HKDF (RFC 5869). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/err.h"
#include "base/sealed.h"
#include "job/wire/key.h"
#include "key_file.h"

#include <cmocka.h> /* last: it has a macro called fail */

static char dir[64];
static char path[128];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/weft-key-XXXXXX");
    if (!mkdtemp(dir) || chmod(dir, 0755)) /* for another user, too */
        return 1;
    snprintf(path, sizeof path, "%s/job.key", dir);
    unsetenv(KEY_FD_ENV);
    return 0;
}

static int drop_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static const job_identity who = {.rank = 1, .ranks = 4};

static weft_status obtain(const char *file, uint8_t key[KEY_BYTES])
{
    memset(key, 0, KEY_BYTES);
    err_clear();
    return job_key_obtain(&who, file, key);
}

static void refuses(const char *file, const char *word)
{
    uint8_t key[KEY_BYTES], zero[KEY_BYTES] = {0};
    weft_status st = obtain(file, key);
    if (st != WEFT_USAGE || !strstr(err_text(), word))
        fail_msg("status %d, '%s' lacks '%s'", st, err_text(), word);
    assert_memory_equal(key, zero, KEY_BYTES);
}

static void write_and_read(void **state)
{
    (void)state;
    uint8_t a[KEY_BYTES], b[KEY_BYTES], zero[KEY_BYTES] = {0};
    key_file_write(path);
    assert_int_equal(obtain(path, a), WEFT_OK);
    assert_memory_not_equal(a, zero, KEY_BYTES);
    assert_int_equal(obtain(path, b), WEFT_OK);
    assert_memory_equal(a, b, KEY_BYTES);
    unlink(path);
    key_file_write(path);
    assert_int_equal(obtain(path, b), WEFT_OK);
    assert_memory_not_equal(a, b, KEY_BYTES);
}

static void put_file(const char *text, size_t n, mode_t mode)
{
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, n), (ssize_t)n);
    fchmod(fd, mode);
    close(fd);
}

static void bad_files(void **state)
{
    (void)state;
    char hex[80];
    memset(hex, 'a', sizeof hex);
    uint8_t key[KEY_BYTES];
    put_file(hex, 64, 0600);
    assert_int_equal(obtain(path, key), WEFT_OK); /* no newline: fine */
    put_file(hex, 63, 0600);
    refuses(path, "64 hexadecimal");
    put_file(hex, 65, 0600);
    refuses(path, "64 hexadecimal");
    put_file(hex, 0, 0600);
    refuses(path, "64 hexadecimal");
    hex[64] = '\n';
    put_file(hex, 66, 0600);
    refuses(path, "64 hexadecimal");
    hex[10] = 'g';
    put_file(hex, 65, 0600);
    refuses(path, "64 hexadecimal");
    hex[10] = 'b';
    refuses(dir, "regular file");
    refuses("/dev/zero", "regular file");
    refuses("/nowhere", "[run] key");
    refuses(NULL, "weft key -o FILE");
    refuses(NULL, "[run] key");
    refuses("", "weft key -o FILE");
}

/* The same file as this user's and as root's; the words that the refusal has to say. */
static void modes(void **state)
{
    (void)state;
    char hex[65];
    uint8_t key[KEY_BYTES];
    memset(hex, 'b', sizeof hex);
    hex[64] = '\n';
    static const struct {
        mode_t mode;
        const char *ours, *roots; /* NULL: accepted */
    } rows[] = {
        {0600, NULL, NULL},
        {0400, NULL, NULL},
        {0700, NULL, NULL},
        {0440, "its group can read it, and only root may grant that (bit 0040). `chmod g-r`", NULL},
        {0640, "(bit 0040). `chmod g-r`", NULL},
        {0404, "others can read it (bit 0004). `chmod o-r`", "(bit 0004). `chmod o-r`"},
        {0620, "its group can change it (bit 0020). `chmod g-w`", "(bit 0020). `chmod g-w`"},
        {0602, "others can change it (bit 0002). `chmod o-w`", "(bit 0002). `chmod o-w`"},
        {0644, "mode 0644: others can read it (bit 0004), its group can read it, and only root",
         "mode 0644: others can read it (bit 0004). `chmod o-r`"},
        {0666, "`chmod o-w,g-w,o-r,g-r`", "`chmod o-w,g-w,o-r`"},
    };
    const bool root = geteuid() == 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *word = root ? rows[i].roots : rows[i].ours;
        put_file(hex, 65, rows[i].mode);
        if (word)
            refuses(path, word);
        else
            assert_int_equal(obtain(path, key), WEFT_OK);
        if (!root)
            continue;
        assert_int_equal(chown(path, 4321, 4321), 0);
        refuses(path, "belongs to user 4321, neither to user 0");
        if (seteuid(4321)) /* where it is the user's own */
            fail_msg("no other user");
        if (rows[i].ours)
            refuses(path, rows[i].ours);
        else
            assert_int_equal(obtain(path, key), WEFT_OK);
        assert_int_equal(seteuid(0), 0);
    }
}

/* The secret "key" of a pod: links to a file of root's that the pod's group may read. */
static void secret_of_a_pod(void **state)
{
    (void)state;
    char hex[65], data[160], version[160], file[192], link[160], aside[192];
    uint8_t key[KEY_BYTES];
    memset(hex, 'c', sizeof hex);
    hex[64] = '\n';
    snprintf(version, sizeof version, "%s/..2026_01_02", dir);
    snprintf(data, sizeof data, "%s/..data", dir);
    snprintf(file, sizeof file, "%s/key", version);
    snprintf(link, sizeof link, "%s/key", dir);
    assert_int_equal(mkdir(version, 0755), 0);
    assert_int_equal(symlink("..2026_01_02", data), 0);
    assert_int_equal(symlink("..data/key", link), 0);
    put_file(hex, 65, geteuid() ? 0400 : 0440);
    assert_int_equal(rename(path, file), 0);
    assert_int_equal(obtain(link, key), WEFT_OK);
    assert_int_equal(key[0], 0xcc);
    assert_int_equal(chmod(file, 0644), 0); /* the default of Kubernetes */
    refuses(link, "defaultMode: 0400");
    snprintf(aside, sizeof aside, "%s/gone", version);
    assert_int_equal(rename(file, aside), 0);
    refuses(link, "[run] key");
    assert_int_equal(symlink("key", file), 0); /* a circle */
    refuses(link, "[run] key");
    unlink(file);
    unlink(aside);
    unlink(link);
    unlink(data);
    assert_int_equal(rmdir(version), 0);
}

static void descriptors(void **state)
{
    (void)state;
    uint8_t a[KEY_BYTES], b[KEY_BYTES], zero[KEY_BYTES] = {0};
    char number[16];
    assert_int_equal(job_key_random(a, sizeof a), WEFT_OK);
    int fd = sealed_make("weft-key", a, sizeof a), copy = dup(fd), other = dup(fd);
    assert_true(fd > 2 && copy > 2 && other > 2);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(write(fd, zero, 1), -1); /* sealed */
    snprintf(number, sizeof number, "%d", fd);
    setenv(KEY_FD_ENV, number, 1);
    assert_int_equal(obtain("/nowhere", a), WEFT_OK); /* a descriptor wins over a file */
    assert_memory_not_equal(a, zero, KEY_BYTES);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* closed after reading */
    snprintf(number, sizeof number, "%d", copy);
    setenv(KEY_FD_ENV, number, 1);
    assert_int_equal(obtain(NULL, b), WEFT_OK);
    assert_memory_equal(a, b, KEY_BYTES);
    static const char *const bad[] = {"", "x", "1", "-4", "99999", "4x", "12345678901234567890"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv(KEY_FD_ENV, bad[i], 1);
        refuses(NULL, KEY_FD_ENV);
    }
    static const char *const signs[] = {"+", " ", "0x"}; /* before a right one */
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        snprintf(number, sizeof number, "%s%d", signs[i], other);
        setenv(KEY_FD_ENV, number, 1);
        refuses(NULL, "is not the number");
    }
    close(other);
    int open_memory = memfd_create("not sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(write(open_memory, a, KEY_BYTES), KEY_BYTES);
    snprintf(number, sizeof number, "%d", open_memory);
    setenv(KEY_FD_ENV, number, 1);
    refuses(NULL, "sealed");
    close(open_memory);
    unsetenv(KEY_FD_ENV);
}

static void hmac(const uint8_t *key, size_t key_bytes, const uint8_t *text, size_t n,
                 uint8_t out[32])
{
    unsigned int m = 32;
    assert_non_null(HMAC(EVP_sha256(), key, (int)key_bytes, text, n, out, &m));
}

static void derivation(void **state)
{
    (void)state;
    uint8_t *key = job_key_alloc(), salt[16], out[32], extracted[32], expected[32], text[64];
    assert_non_null(key);
    for (int i = 0; i < KEY_BYTES; i++)
        key[i] = (uint8_t)(i * 7);
    memset(salt, 3, sizeof salt);
    assert_int_equal(job_key_derive(key, salt, "tls", "store", out), WEFT_OK);
    hmac(salt, 16, key, KEY_BYTES, extracted);
    int n = snprintf((char *)text, sizeof text, "weft-1 tls store");
    text[n] = 1;
    hmac(extracted, 32, text, (size_t)n + 1, expected);
    assert_memory_equal(out, expected, 32);
    assert_int_equal(job_key_derive(key, salt, "tls", "stora", expected), WEFT_OK);
    assert_memory_not_equal(out, expected, 32);
    salt[0] ^= 1;
    assert_int_equal(job_key_derive(key, salt, "tls", "store", expected), WEFT_OK);
    assert_memory_not_equal(out, expected, 32);
    char label[200];
    memset(label, 'a', sizeof label - 1);
    label[199] = 0;
    assert_int_equal(job_key_derive(key, salt, "tls", label, out), WEFT_USAGE);
    assert_int_equal(job_key_derive(key, salt, "tls", "", out), WEFT_USAGE);
    job_key_free(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(write_and_read, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(bad_files, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(modes, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(secret_of_a_pod, make_dir, drop_dir),
        cmocka_unit_test(descriptors),
        cmocka_unit_test(derivation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
