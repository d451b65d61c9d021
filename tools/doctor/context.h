/* doctor/context.h: the state of a doctor run, passed to every check. */
#ifndef DOCTOR_CONTEXT_H
#define DOCTOR_CONTEXT_H

#include "base/mem.h"
#include "doctor/doctor.h"

typedef struct doctor {
    const char *root;      /* prefix of every path; "" for this machine */
    const doctor_job *job; /* NULL: no job was given */
    json_t *done;          /* array of completed checks */
    json_t *check;         /* the check in progress */
    json_t *finding;       /* its newest finding; borrowed */
    pool pool;             /* freed when the report is complete */
} doctor;

#endif
