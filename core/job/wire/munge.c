/* job/wire/munge.c: see munge.h. The declarations are those of munge.h of libmunge, which keeps
 * them. */
#include "job/wire/munge.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/err.h"
#include "job/wire/wire.h"

#define OPT_UID_RESTRICTION 9
#define OPT_TTL 4
#define TTL_MAX 3600 /* seconds; a site may allow less */
#define SOCKET 6     /* EMUNGE_SOCKET */
#define CRED_EXPIRED 15
#define CRED_UNAUTHORIZED 18 /* sealed for another user; 16: rewound, 17: replayed */
#define LABEL "weft key 1"

typedef struct munge {
    void *(*create)(void);
    void (*destroy)(void *ctx);
    int (*set)(void *ctx, int opt, ...);
    int (*encode)(char **cred, void *ctx, const void *buf, int len);
    int (*decode)(const char *cred, void *ctx, void **buf, int *len, uid_t *uid, gid_t *gid);
    const char *(*strerror)(int e);
} munge;

typedef struct letter {
    char label[16];
    uint8_t key[KEY_BYTES];
} letter;

/* Loaded once and kept: other modules may use it too. */
static weft_status load(munge *m)
{
    void *lib = dlopen("libmunge.so.2", RTLD_NOW | RTLD_LOCAL);
    const struct {
        const char *name;
        void *to;
    } symbols[] = {{"munge_ctx_create", &m->create}, {"munge_ctx_destroy", &m->destroy},
                   {"munge_ctx_set", &m->set},       {"munge_encode", &m->encode},
                   {"munge_decode", &m->decode},     {"munge_strerror", &m->strerror}};
    for (size_t i = 0; lib && i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(lib, symbols[i].name);
        if (!symbol)
            return err_fail(WEFT_ABSENT, "libmunge.so.2 has no %s", symbols[i].name);
        memcpy(symbols[i].to, &symbol, sizeof symbol);
    }
    return lib ? WEFT_OK : err_fail(WEFT_ABSENT, "libmunge.so.2 cannot be loaded (%s)", dlerror());
}

/* EMUNGE_SOCKET: the daemon is not there. Else the machines differ in their key or their clock. */
static weft_status munge_failed(const munge *m, weft_status st, int e, const char *what)
{
    char host[HOST_BYTES];
    job_wire_host(host);
    return err_fail(st, "munge cannot %s on %.64s: %s; %s", what, host, m->strerror(e),
                    e == SOCKET ? "munged does not run there (systemctl status munge)"
                                : "all machines need the same munge.key and the same time");
}

weft_status job_munge_seal(const uint8_t key[KEY_BYTES], char out[MUNGE_TEXT])
{
    munge m;
    weft_status st = load(&m);
    if (st != WEFT_OK)
        return st;
    letter l = {.label = LABEL};
    char *credential = NULL;
    void *ctx = m.create();
    memcpy(l.key, key, KEY_BYTES);
    int e = ctx ? m.set(ctx, OPT_UID_RESTRICTION, geteuid()) : 5;
    if (!e)
        e = m.set(ctx, OPT_TTL, TTL_MAX);
    if (!e)
        e = m.encode(&credential, ctx, &l, (int)sizeof l);
    if (e)
        st = munge_failed(&m, WEFT_ABSENT, e, "seal the job key");
    else if (strlen(credential) >= MUNGE_TEXT)
        st = err_fail(WEFT_ABSENT, "munge made a credential of %zu bytes; %d at most are sent",
                      strlen(credential), MUNGE_TEXT - 1);
    else
        memcpy(out, credential, strlen(credential) + 1);
    explicit_bzero(&l, sizeof l);
    free(credential);
    if (ctx)
        m.destroy(ctx);
    return st;
}

weft_status job_munge_open(const char *credential, uint8_t key[KEY_BYTES])
{
    munge m;
    if (!*credential)
        return err_fail(WEFT_USAGE,
                        "rank 0 has a key of its own and this rank has none: give all ranks the "
                        "same [run] key, or none");
    weft_status st = load(&m);
    if (st != WEFT_OK)
        return st;
    void *bytes = NULL;
    int n = 0;
    uid_t uid = (uid_t)-1;
    gid_t gid;
    const int e = m.decode(credential, NULL, &bytes, &n, &uid, &gid);
    const letter *l = bytes;
    if (e && (e < CRED_EXPIRED || e > CRED_UNAUTHORIZED))
        st = munge_failed(&m, WEFT_USAGE, e, "open what rank 0 sent");
    else if (e == CRED_UNAUTHORIZED || uid != geteuid())
        st = err_fail(WEFT_USAGE,
                      "what answers there is a process of another user than %u, who runs this "
                      "rank: another job has the port; set MASTER_PORT to a free one on all ranks",
                      (unsigned)geteuid());
    else if (!l || n != (int)sizeof *l || strncmp(l->label, LABEL, sizeof l->label) != 0)
        st = err_fail(WEFT_USAGE, "rank 0 sent a munge credential that holds no job key");
    else
        memcpy(key, l->key, KEY_BYTES);
    if (bytes && n > 0)
        explicit_bzero(bytes, (size_t)n);
    free(bytes);
    return st;
}
