/* check/child.c: the process of one check. */
#include "check/child.h"

#include "check/harness/harness.h"
#include "check/watch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static bool concerns(const check_run *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (check_lists(r->now->ifaces, r->components[i]->iface))
            return true;
    return false;
}

static void list_interfaces(check_run *r)
{
    char text[CHECK_TEXT] = "";
    check_load(r);
    check_options_declared(r);
    for (uint32_t i = 0; i < r->n; i++) {
        const size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%s", i ? " " : "", r->components[i]->iface);
    }
    check_page_write(CHECK_PASS, text, "");
}

int check_child_run(const check_request *q, uint32_t number)
{
    const check_group *group;
    check_run r = {.now = check_find(number, &group), .path = q->path, .seed = q->seed};
    check_options_set(q->set, q->nset);
    check_ranks_set(q->threads);
    if (q->result >= 0) {
        check_page *p = check_page_map(q->result);
        if (!p)
            return 2;
        close(q->result);
        check_page_use(p);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_CHILD_SUBREAPER,
              1); /* so that a daemon of the plugin is seen: harness/state.c */
    }
    if (!q->in_process) /* under a debugger nothing ends the process */
        check_watch(check_seconds(r.now));
    if (!number) {
        list_interfaces(&r);
    } else {
        if (r.now->ifaces) {
            check_load(&r);
            if (!concerns(&r))
                check_page_foreign(r.now->ifaces);
        }
        r.now->run(&r);
        check_page_end();
    }
    fflush(NULL);
    _exit(0); /* what exit() does to the plugin is check 13 */
}
