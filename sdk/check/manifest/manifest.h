/* check/manifest/manifest.h: checks of the manifest; private to this folder. */
#ifndef CHECK_MANIFEST_MANIFEST_H
#define CHECK_MANIFEST_MANIFEST_H

#include "check/harness/harness.h"
#include "host/object.h"

/* fields.c: the manifest and its components. */
void check_manifest_numbers(check_run *r);
void check_manifest_names(check_run *r);
void check_manifest_interfaces(check_run *r);
void check_manifest_sizes(check_run *r);
void check_manifest_reserved(check_run *r);
void check_manifest_lines(check_run *r);
void check_manifest_twice(check_run *r);

/* constant.c: that it is constant. */
void check_manifest_constant(check_run *r);
void check_manifest_unchanged(check_run *r);

/* tables.c: members and options. */
void check_manifest_members(check_run *r);
void check_manifest_caps(check_run *r);
void check_manifest_defaults(check_run *r);
void check_manifest_keys(check_run *r);

/* The manifest without the host's checks. check_fail() where the file cannot be loaded. */
const weft_manifest *check_manifest_raw(check_run *r);

/* NULL: the host does not know the interface, or it is NULL. */
const host_interface *check_manifest_interface(const weft_component *c);

#endif
