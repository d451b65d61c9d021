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
#include "job/wire/key.h"

#include <cmocka.h> /* last: it has a macro called fail */

static char dir[64];
static char path[128];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/weft-key-XXXXXX");
    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof path, "%s/job.key", dir);
    unsetenv(KEY_FD_ENV);
    return 0;
}

static int drop_dir(void **state)
{
    (void)state;
    char other[140];
    snprintf(other, sizeof other, "%s.link", path);
    unlink(other);
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
    umask(0);
    assert_int_equal(job_key_write(path), WEFT_OK);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, 65);
    assert_int_equal(obtain(path, a), WEFT_OK);
    assert_memory_not_equal(a, zero, KEY_BYTES);
    assert_int_equal(obtain(path, b), WEFT_OK);
    assert_memory_equal(a, b, KEY_BYTES);
    assert_int_equal(job_key_write(path), WEFT_USAGE); /* never over an existing one */
    assert_non_null(strstr(err_text(), "exists"));
    assert_int_equal(obtain(path, b), WEFT_OK);
    assert_memory_equal(a, b, KEY_BYTES);
    unlink(path);
    assert_int_equal(job_key_write(path), WEFT_OK);
    assert_int_equal(obtain(path, b), WEFT_OK);
    assert_memory_not_equal(a, b, KEY_BYTES); /* random, not constant */
    assert_int_equal(job_key_write("/nowhere/at/all"), WEFT_USAGE);
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
    static const mode_t open_modes[] = {0640, 0604, 0620, 0602, 0601, 0610, 0666};
    for (size_t i = 0; i < sizeof open_modes / sizeof *open_modes; i++) {
        put_file(hex, 65, open_modes[i]);
        refuses(path, "others");
    }
    put_file(hex, 65, 0600);
    char other[140];
    snprintf(other, sizeof other, "%s.link", path);
    assert_int_equal(symlink(path, other), 0);
    refuses(other, "symbolic link");
    refuses(dir, "regular file");
    refuses("/dev/zero", "regular file");
    refuses("/nowhere", "[run] key");
    refuses(NULL, "weft key -o FILE");
    refuses(NULL, "[run] key");
    refuses("", "weft key -o FILE");
}

static void descriptors(void **state)
{
    (void)state;
    uint8_t a[KEY_BYTES], b[KEY_BYTES], zero[KEY_BYTES] = {0};
    char number[16];
    int fd = job_key_descriptor(), copy = dup(fd);
    assert_true(fd > 2 && copy > 2);
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
        cmocka_unit_test(descriptors),
        cmocka_unit_test(derivation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
