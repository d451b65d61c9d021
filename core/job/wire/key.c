/* job/wire/key.c: see key.h.
 *
 * A key file is 64 hexadecimal digits and a newline. A later version would begin with "weft key"
 * and its number; the error names it. Who may read or change the file is asked of the descriptor
 * that it is read from, so the path may go over links, as secrets of Kubernetes do: nobody but its
 * owner may change it, who is this user or root, and nobody else may read it. The one exception is
 * the group of a file of root's: an administrator has chosen it, as fsGroup of a pod does. */
#define _GNU_SOURCE
#include "job/wire/key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/number/hex.h"
#include "base/sealed.h"
#include "base/version.h"

#define KEY_PAGE 4096
#define HEX_BYTES (2 * KEY_BYTES)

uint8_t *job_key_alloc(void)
{
    void *page = mmap(NULL, KEY_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    /* If a kernel refuses either call, the key is protected like the rest of our memory. */
    (void)madvise(page, KEY_PAGE, MADV_DONTDUMP);
    (void)mlock(page, KEY_PAGE);
    return page;
}

void job_key_free(uint8_t *key)
{
    if (!key)
        return;
    explicit_bzero(key, KEY_PAGE);
    munmap(key, KEY_PAGE);
}

weft_status job_key_random(uint8_t *out, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes;) {
        ssize_t n = getrandom(out + at, bytes - at, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_fail_errno(WEFT_IO, "the kernel gave no random bytes for a key");
        at += (uint32_t)n;
    }
    return WEFT_OK;
}

/* The permissions that a key file may not have, of these owners. */
static const struct {
    mode_t bit;
    const char *says, *remove;
} forbidden[] = {{S_IWOTH, "others can change it", "o-w"},
                 {S_IWGRP, "its group can change it", "g-w"},
                 {S_IROTH, "others can read it", "o-r"},
                 {S_IRGRP, "its group can read it, and only root may grant that", "g-r"}};

static weft_status check_mode(const struct stat *st, const char *path)
{
    const mode_t mode = st->st_mode & 07777;
    const mode_t wrong = mode & (S_IWOTH | S_IWGRP | S_IROTH | (st->st_uid ? S_IRGRP : 0));
    char says[160] = "", remove[20] = "";
    size_t n = 0, m = 0;
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++) {
        if (!(wrong & forbidden[i].bit))
            continue;
        n += (size_t)snprintf(says + n, sizeof says - n, "%s%s (bit %04o)", n ? ", " : "",
                              forbidden[i].says, (unsigned)forbidden[i].bit);
        m += (size_t)snprintf(remove + m, sizeof remove - m, "%s%s", m ? "," : "",
                              forbidden[i].remove);
    }
    if (!wrong)
        return WEFT_OK;
    return err_fail(WEFT_USAGE,
                    "the key file '%s' has mode %04o: %s. `chmod %s` it (of a Kubernetes secret: "
                    "defaultMode: 0400), and if somebody may have read it make a new one with "
                    "`weft key -o FILE`",
                    path, (unsigned)mode, says, remove);
}

static weft_status check_file(int fd, const char *path)
{
    struct stat st;
    if (fstat(fd, &st))
        return err_fail_errno(WEFT_USAGE, "cannot read the key file '%s'", path);
    if (!S_ISREG(st.st_mode))
        return err_fail(WEFT_USAGE, "the key file '%s' is not a regular file", path);
    if (st.st_uid && st.st_uid != geteuid())
        return err_fail(WEFT_USAGE,
                        "the key file '%s' belongs to user %u, neither to user %u who runs the "
                        "job nor to root: whoever can change it can join; `chown` it",
                        path, (unsigned)st.st_uid, (unsigned)geteuid());
    return check_mode(&st, path);
}

static weft_status read_file(const char *path, uint8_t *key)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == EACCES)
        return err_fail_errno(WEFT_USAGE,
                              "user %u may not open the key file '%s' ([run] key; of a Kubernetes "
                              "secret: set fsGroup, or run as its owner)",
                              (unsigned)geteuid(), path);
    if (fd < 0)
        return err_fail_errno(WEFT_USAGE, "cannot open the key file '%s' ([run] key)", path);
    weft_status st = check_file(fd, path);
    if (st == WEFT_OK) {
        char text[HEX_BYTES + 2];
        ssize_t n = pread(fd, text, sizeof text, 0);
        const uint64_t version = version_after(text, n < 0 ? 0 : (uint64_t)n, "weft key ");
        if (version != 1) {
            st = version_check("the key file", version, 1);
            err_context("%s", path);
        } else if ((n != HEX_BYTES && (n != HEX_BYTES + 1 || text[HEX_BYTES] != '\n')) ||
                   !hex_parse(text, KEY_BYTES, key))
            st = err_fail(WEFT_USAGE,
                          "the key file '%s' does not hold 64 hexadecimal digits and a "
                          "newline: make it with `weft key -o FILE`",
                          path);
        explicit_bzero(text, sizeof text);
    }
    close(fd);
    return st;
}

static weft_status read_descriptor(int fd, uint8_t *key)
{
    const char *number = getenv(KEY_FD_ENV);
    if (fd < 0)
        return err_fail(WEFT_USAGE, KEY_FD_ENV "='%s' is not the number of an inherited descriptor",
                        number);
    uint8_t bytes[KEY_BYTES + 1];
    int seals = fcntl(fd, F_GET_SEALS);
    ssize_t n = seals >= 0 && seals & F_SEAL_WRITE ? pread(fd, bytes, sizeof bytes, 0) : -1;
    if (n == KEY_BYTES)
        memcpy(key, bytes, KEY_BYTES);
    explicit_bzero(bytes, sizeof bytes);
    if (n != KEY_BYTES)
        return err_fail(WEFT_USAGE,
                        KEY_FD_ENV "=%s is not a sealed memory file of %d bytes: the job key "
                                   "was not handed over",
                        number, KEY_BYTES);
    close(fd);
    return WEFT_OK;
}

bool job_key_given(const char *file)
{
    return getenv(KEY_FD_ENV) || (file && *file);
}

weft_status job_key_obtain(const job_identity *who, const char *file, uint8_t *key)
{
    const int fd = sealed_number(KEY_FD_ENV);
    if (fd != -1)
        return read_descriptor(fd, key);
    if (file && *file)
        return read_file(file, key);
    return err_fail(
        WEFT_USAGE,
        "rank %u of %u was not started by `weft train -n`, so it needs a key that only the "
        "ranks of this job have: make one with `weft key -o FILE`, put it on every machine "
        "and name it in `[run] key = FILE`",
        who->rank, who->ranks);
}

#define HALF (MPIRUN_SECRET / 2)

/* "6e7e323fdd22bb81-4ff7af15bbf82b98" */
bool job_key_of_mpirun(uint8_t out[MPIRUN_SECRET])
{
    const char *text = getenv("OMPI_MCA_orte_precondition_transports");
    return text && strlen(text) == 4 * HALF + 1 && text[2 * HALF] == '-' &&
           strncmp(text, "00000000", 8) && /* a number of the job, which is no secret */
           hex_parse(text, HALF, out) && hex_parse(text + 2 * HALF + 1, HALF, out + HALF);
}

weft_status job_key_derive(const uint8_t *key, const uint8_t *salt, const char *use,
                           const char *label, uint8_t out[KEY_BYTES])
{
    char info[160];
    int n = snprintf(info, sizeof info, "weft-1 %s %s", use, label);
    if (!*label || n < 0 || n >= (int)sizeof info)
        return err_fail(WEFT_USAGE, "a key label has 1 to %d bytes; '%.32s' has %zu",
                        (int)sizeof info - 16, label, strlen(label));
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, "SHA256", 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)key, KEY_BYTES),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)(uintptr_t)salt, 16),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, (size_t)n),
        OSSL_PARAM_construct_end(),
    };
    int good = ctx && EVP_KDF_derive(ctx, out, KEY_BYTES, params) == 1;
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
    return good ? WEFT_OK : err_fail(WEFT_INTERNAL, "HKDF-SHA256 of the system's OpenSSL failed");
}
