/* tests/comm/fake_job.c: the calls of job/job.h that comm makes, for ranks that are threads. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "loop_link.h"

void fake_job_begin(job *j)
{
    memset(j, 0, sizeof *j);
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->put, NULL);
}

void fake_job_fail(job *j, const char *text)
{
    pthread_mutex_lock(&j->lock);
    j->failure = text;
    pthread_mutex_unlock(&j->lock);
}

void fake_job_end(job *j)
{
    for (uint32_t i = 0; i < j->entries; i++)
        free(j->entry[i].value);
}

weft_status job_put(job *j, const char *key, const void *value, uint64_t bytes)
{
    pthread_mutex_lock(&j->lock);
    uint32_t i = j->entries++;
    snprintf(j->entry[i].key, sizeof j->entry[i].key, "%s", key);
    j->entry[i].value = malloc(bytes);
    memcpy(j->entry[i].value, value, bytes);
    j->entry[i].bytes = bytes;
    pthread_cond_broadcast(&j->put);
    pthread_mutex_unlock(&j->lock);
    return WEFT_OK;
}

static int find(const job *j, const char *key)
{
    for (uint32_t i = 0; i < j->entries; i++)
        if (strcmp(j->entry[i].key, key) == 0)
            return (int)i;
    return -1;
}

weft_status job_get(job *j, const char *key, double deadline, void **value, uint64_t *bytes)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)deadline + 1;
    pthread_mutex_lock(&j->lock);
    int i, late = 0;
    while ((i = find(j, key)) < 0 && !late)
        late = pthread_cond_timedwait(&j->put, &j->lock, &until) == ETIMEDOUT;
    if (i >= 0) {
        *bytes = j->entry[i].bytes;
        *value = malloc(*bytes);
        memcpy(*value, j->entry[i].value, *bytes);
    }
    pthread_mutex_unlock(&j->lock);
    return i >= 0 ? WEFT_OK : err_fail(WEFT_PEER, "nobody put %s", key);
}

weft_status job_failure(job *j)
{
    if (!j)
        return WEFT_OK;
    pthread_mutex_lock(&j->lock);
    const char *text = j->failure;
    pthread_mutex_unlock(&j->lock);
    return text ? err_fail(WEFT_PEER, "%s", text) : WEFT_OK;
}

weft_status job_subkey(job *j, const char *label, uint8_t out[32])
{
    (void)j, (void)label;
    memset(out, 7, 32);
    return WEFT_OK;
}
