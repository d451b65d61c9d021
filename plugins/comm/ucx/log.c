/* log.c: what UCX would print goes to the host's log. UCX's handler belongs to the process and
 * takes no argument, so the module that it writes for is static; it is the one that was loaded
 * last. */
#include "ucx.h"

#include <ucs/debug/log_def.h>

#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const ucx_module *writer;
static bool pushed;

/* A setting of this transport for something that UCX does not use here: context.c. */
static const char unused[] = "invalid configuration";

static int32_t level_of(ucs_log_level_t level)
{
    return level <= UCS_LOG_LEVEL_WARN ? WEFT_LOG_WARN : WEFT_LOG_DEBUG;
}

static __attribute__((format(printf, 6, 0))) ucs_log_func_rc_t
handle(const char *file, unsigned line, const char *function, ucs_log_level_t level,
       const ucs_log_component_config_t *of, const char *format, va_list args)
{
    char text[SOCKETS_TEXT];
    (void)file, (void)line, (void)function, (void)of;
    const int used = snprintf(text, sizeof text, "UCX: ");
    vsnprintf(text + used, sizeof text - (size_t)used, format, args);
    if (strncmp(format, unused, sizeof unused - 1) == 0)
        return UCS_LOG_FUNC_RC_STOP;
    pthread_mutex_lock(&lock);
    const weft_host *host = writer ? writer->host : NULL;
    if (host && host->log_enabled(host->ctx, level_of(level)))
        host->log(host->ctx, level_of(level), text);
    pthread_mutex_unlock(&lock);
    return UCS_LOG_FUNC_RC_STOP;
}

void ucx_log_to(const ucx_module *m)
{
    pthread_mutex_lock(&lock);
    writer = m;
    const bool first = !pushed;
    pushed = true;
    pthread_mutex_unlock(&lock);
    if (first && m->api.log_push_handler)
        m->api.log_push_handler(handle);
}

void ucx_log_end(const ucx_module *m)
{
    pthread_mutex_lock(&lock);
    if (writer == m)
        writer = NULL;
    pthread_mutex_unlock(&lock);
}
