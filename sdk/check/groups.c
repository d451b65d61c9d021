/* check/groups.c: the one list of groups, and what is printed from it. */
#include "check/check.h"

#include <stdio.h>
#include <string.h>

const check_group *const check_groups[] = {&check_group_file,      &check_group_manifest,
                                           &check_group_version,   &check_group_lifecycle,
                                           &check_group_behaviour, &check_group_device,
                                           &check_group_link,      &check_group_coll,
                                           &check_group_strategy,  &check_group_rule,
                                           &check_group_op,        &check_group_fuzz,
                                           &check_group_data,      NULL};

const check *check_find(uint32_t number, const check_group **group)
{
    for (const check_group *const *g = check_groups; *g; g++)
        for (const check *c = (*g)->checks; c->number; c++)
            if (c->number == number) {
                *group = *g;
                return c;
            }
    return NULL;
}

void check_print_list(void)
{
    for (const check_group *const *g = check_groups; *g; g++)
        for (const check *c = (*g)->checks; c->number; c++)
            printf("%-4u %-9s %s\n", c->number, (*g)->name, c->title);
}

void check_print_page(void)
{
    printf("# What `weft plugins check` checks\n\nWritten by `weft plugins check --page`; a test "
           "compares it with the program.\n\n`weft plugins check FILE.so` loads a plugin as the "
           "host does and runs each check in a process of its own, with a deadline. A failure is "
           "a\nsentence with the number of the check and a command that repeats it. Numbers are "
           "stable; a number that is absent here is not checked.\nA check runs if the plugin has "
           "a component of one of its interfaces. Of a file that the host refuses, checks run up "
           "to the first that fails;\nafter three time-outs in one call of the plugin no further "
           "check runs.\n");
    for (const check_group *const *g = check_groups; *g; g++) {
        printf("\n## %s\n\n| number | a right plugin | how a wrong one shows | interfaces |\n"
               "|---|---|---|---|\n",
               (*g)->title);
        for (const check *c = (*g)->checks; c->number; c++) {
            printf("| %u | %s | %s | ", c->number, c->title, c->bad_sign);
            for (const char *at = c->ifaces ? c->ifaces : "all"; *at; at++)
                printf(*at == '|' ? ", " : "%c", *at);
            printf(" |\n");
        }
    }
}
