/* config/config.h: from an INI file and the command line to checked values.
 *
 * Three steps. config_load() reads text and records the place of each value. Then the core's own
 * tables (options.c) and those of the plugins that the job names are added, each to a section, and
 * config_check() checks every key against them: unknown section or key (with the nearest known
 * name), wrong type, out of range. Only after that are values read.
 *
 * Keys are written "section.key": "train.batch", "comm.tcp.encrypt".
 *
 * The text: [section] and key = value, one a line; a comment is a line that begins with ';' or '#',
 * or what follows a blank and ';'. Names are at most 48 bytes, lines 4000, a file 1 MiB. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdio.h>
#include <weft/plugin.h>

#include "base/pool.h"

typedef struct config config; /* opaque */

/* The beginning of the first line of a file of `weft tune comm`; its version follows. */
#define CONFIG_TUNED_MARK "; weft tuned file, version "
#define CONFIG_TUNED_VERSION 1

/* One section of the core's own: what `weft plugins` and docs/CONFIG.md print. NULL-ended. */
typedef struct config_section {
    const char *name, *help;
    const weft_option *const *options;
} config_section;
const config_section *config_core_sections(void); /* ended by a NULL name */

/* The plugin that is meant where a file of a tokenizer is named in its place; NULL: the word is no
 * such file. */
const char *config_tokenizer_of(const char *file);

/* The plugin with the ops that come with weft. */
const char *config_ops(void);

/* The keys that the core has in the section [comm.NAME] of every transport, besides the plugin's
 * own. NULL-ended. */
const weft_option *const *config_link_options(void);

/* The keys that the core has in the section [optim.NAME] of every parameter group, besides those of
 * the update rule. NULL-ended. */
const weft_option *const *config_group_options(void);

/* The activations that a word of [train] recompute marks, as names (weft/strategy.h, activations);
 * NULL: none. */
const char *config_recompute(const char *word);

/* Load text; the core's sections are known from the start and need no config_add().
 *
 * Read `path` (source.h; "-": standard input; NULL: no file, defaults alone), then `n` overrides
 * "section.key=value", of which the last for a key holds. Every override is remembered with the
 * place "command line". Last comes the file that comm.tuned names: keys of [comm] and [comm.NAME]
 * alone, which hold where neither the job nor the command line has them. The caller owns *out and
 * frees it with config_destroy(). [setup] */
weft_status config_load(const char *path, const char *const *overrides, uint32_t n, config **out);
/* The same from text in memory, for checkpoints, which carry their job as config_dump() wrote it,
 * so that no other file is read; `name` is for messages. */
weft_status config_load_text(const char *text, const char *name, config **out);

/* The same where the job of a checkpoint is used, and not only compared: a checkpoint is data,
 * perhaps of somebody else, and data does not say which code is loaded. Keys that do are left out.
 * [setup] */
weft_status config_load_saved(const char *text, const char *name, config **out);

/* Does a key say which code is loaded: run.plugins, or one named `library` or `libraries`? [any] */
bool config_names_code(const char *section, const char *key);

/* Warn that config_load_saved() has left out such keys which no config_set() has
 * given since, and say how to give them. [setup] */
void config_warn_code(const config *c);

/* A copy as if it were loaded again: every key with its place, and no section or key that
 * config_add() has made known. Sections named `except` or "`except`.anything" are left out; NULL:
 * none. The caller frees it with config_destroy(). [setup] */
config *config_copy(const config *c, const char *except);

/* Give `key` ("train.batch") another value, which overrides all others. `where` is its
 * place in messages, as "sweep.ini:7" or "sweep.tp"; NULL: "command line". Setting comm.tuned reads
 * that file in place of the one before. WEFT_USAGE as for an override; whether the value is valid
 * for the key is found by config_check(). [setup] */
weft_status config_set(config *c, const char *key, const char *value, const char *where);

/* Free the config and all text that it gave out. NULL is allowed. [setup] */
void config_destroy(config *c);

/* Make `section` known and the keys of `options` valid in it; `owner` ("plugin adamw") is for
 * messages. Two owners may declare the same key with the same type; the first default holds.
 * A section that nobody added is unknown. [setup] */
weft_status config_add(config *c, const char *section, const char *owner,
                       const weft_option *const *options);

/* The same for a plugin that the job does not use: its keys are valid and have no effect.
 * config_dump_used() leaves them out, unless somebody adds them with config_add() as well.
 * [setup] */
weft_status config_add_unused(config *c, const char *section, const char *owner,
                              const weft_option *const *options);

/* Everything in the text against everything added. Reports the first wrong line. [setup] */
weft_status config_check(config *c);

/* The same of one section alone, whose values may be read then: [run] is needed before the plugins
 * that the rest belongs to are known. [setup] */
weft_status config_check_section(const config *c, const char *section);

/* A value after config_check(), or its default. Asking for a key that nobody declared is a bug and
 * ends the program. config_raw() may be called before the check: the text as written, or NULL when
 * the key was left out; from it the core learns which plugins to load. [any] */
const char *config_raw(const config *c, const char *key);
const char *config_text(const config *c, const char *key);
int64_t config_int(const config *c, const char *key); /* BOOL as 0 or 1, auto as 0 */
double config_real(const config *c, const char *key);
bool config_given(const config *c, const char *key); /* written by the user, not a default */

/* The place of a key, for messages: "job.ini:12", "command line", or "default of train.batch". */
const char *config_where(const config *c, const char *key);

/* How messages name a key and its value: "job.ini:12: train.batch", or "train.batch (default 8)".
 * Lives as long as `c`. [any] */
const char *config_origin(const config *c, const char *key);

/* err_fail(WEFT_USAGE) with config_origin() and ": " before the text. [any] */
weft_status config_fail(const config *c, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Every section name written in the text, in order; NULL at the end of the list. */
const char *config_section_at(const config *c, uint32_t i);

/* Line `i` of what was written, the command line's after the file's; false after the last. */
typedef struct config_line {
    const char *section, *key, *value;
    const char *name;   /* "run.steps" */
    const char *where;  /* "job.ini:12" */
    bool stale;         /* a later one holds */
    bool typed;         /* on the command line */
    const char *former; /* a word of an earlier version, as written: config_rename(); NULL: none */
    bool unused;        /* only plugins that the job does not use have the key */
} config_line;
bool config_line_at(const config *c, uint32_t i, config_line *out);

/* The value of a key is its default, whether it is written or not. After config_check(). [any] */
bool config_is_default(const config *c, const char *key);

/* Replace the key `key` of a section, wherever it is given, by `now`, and its value by `value`;
 * NULL: leave the value. `former` is the word that an earlier version had. A key of the file of
 * comm.tuned goes where the job gives `now`. [setup] */
void config_rename(config *c, const char *section, const char *key, const char *now,
                   const char *value, const char *former);

/* The config is one of several jobs that share a command line, as in a sweep: what is typed there
 * may be without effect in some (config_line.typed is then false). [setup] */
void config_share_command_line(config *c);
bool config_shares_command_line(const config *c);

/* What the job and the command line said, as INI text again: of each key what holds, without
 * sections named `except` or
 * "`except`.anything". The caller frees it. */
char *config_written(const config *c, const char *except);

/* The options of one component as its plugin sees them; lives as long as `c`, and the component
 * longer. */
const weft_conf *config_conf(config *c, const char *section, const weft_component *component);

/* The same for a component whose interface has no options: every getter answers NULL or 0. */
const weft_conf *config_no_options(pool *p, const weft_component *component);

/* The job as text, defaults filled in, one key a line under its section, keys in a fixed order:
 * what a checkpoint keeps and what ranks compare. The caller frees it. */
char *config_dump(const config *c);

/* For comparing jobs: a line "section.key = value" for each key, in no fixed order, without keys of
 * plugins that the job does not use, without sections named `except` or "`except`.anything" (NULL:
 * none), and with each number in one form, so that 1e-3 and 0.001 are equal. After config_check().
 * The caller frees it. */
char *config_dump_used(const config *c, const char *except);

/* Write `text`, one line, as a comment at the end of every config_dump() from here on; a reader of
 * the dump ignores it. [setup] */
void config_remark(config *c, const char *text);

/* "whole number, 1 to 64", for messages, help and docs. [any] */
void config_type_text(const weft_option *o, char *out, size_t size);

/* Is the option itself valid: key, type, choices, bounds, and a default that it would accept? The
 * record says what is wrong, without naming whose option it is. [any] */
weft_status config_option_check(const weft_option *o);

/* May `text` stand as a value in an INI file and be read back the same? [any] */
bool config_text_lawful(const char *text);

/* The known word nearest to `word` among n, by edit distance; NULL when none is near. */
const char *config_nearest(const char *word, const char *const *known, uint32_t n);

#endif
