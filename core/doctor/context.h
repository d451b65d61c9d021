/* doctor/context.h: what every check is given. */
#ifndef DOCTOR_CONTEXT_H
#define DOCTOR_CONTEXT_H

#include "base/mem.h"
#include "doctor/doctor.h"

#include <stdbool.h>

typedef struct doctor {
    const char *root;      /* prefix of every path; "" for this machine */
    const doctor_job *job; /* NULL: no job was named */
    json_t *done;          /* array of the checks that are complete */
    json_t *check;         /* the check that is running */
    json_t *finding;       /* its newest finding; borrowed */
    pool pool;             /* freed when the report is complete */
} doctor;

#endif
