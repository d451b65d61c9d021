/* job/wire/endpoint.h: places as a user writes them: NAME, NAME:PORT, 10.0.0.1, ::1, [::1],
 * [::1]:PORT. An address of version 6 has colons of its own, so only brackets separate it from a
 * port. */
#ifndef JOB_ENDPOINT_H
#define JOB_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <weft/base.h>

struct sockaddr;

/* Split `text` into the name or address, without brackets, and the port; 0: it has none. False:
 * empty, longer than `capacity`, or not of this form. [any] */
bool job_endpoint_split(const char *text, char *name, size_t capacity, uint16_t *port);

/* Can DNS have this name: letters, digits, dots, hyphens, underscores, or bytes beyond ASCII? [any]
 */
bool job_endpoint_is_name(const char *name);

/* 0.0.0.0 or ::, which stand for every address of a machine. [any] */
bool job_endpoint_is_wildcard(const struct sockaddr *a);

/* 127.x.x.x or ::1, also as a mapped address. [any] */
bool job_endpoint_is_loopback(const struct sockaddr *a);

/* The same of a text: 127.x.x.x, ::1 or localhost. [any] */
bool job_endpoint_says_loopback(const char *addr);

/* The address without its port as text; one of version 4 that is mapped into version 6 as one of
 * version 4. [any] */
bool job_endpoint_print(const struct sockaddr *a, char *out, size_t capacity);

/* The one local address that `want` names: an address, an interface ("eth1"; its first address of
 * version 4, else of version 6) or a network ("10.8.0.0/16"; the first address in it). WEFT_USAGE:
 * this machine has none. [setup] */
weft_status job_endpoint_find_own(const char *want, char *out, size_t capacity);

#endif
