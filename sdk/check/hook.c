/* check/hook.c: see hook.h. Slots are named by the relocations of the object: R_..._JUMP_SLOT for
 * calls, R_..._GLOB_DAT and R_..._64 for addresses. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "check/hook.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define IS_SLOT(type)                                                                              \
    ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_64)
#elif defined(__aarch64__)
#define IS_SLOT(type)                                                                              \
    ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_ABS64)
#else
#define IS_SLOT(type) false
#endif

typedef struct lookup {
    const void *inside;    /* an address in the object, or NULL */
    const char *file_name; /* a part of its file's name */
    const check_hooks *list;
    uint32_t written;
    const char *imports; /* asked for */
    bool found;
    check_text *text;
} lookup;

typedef struct dynamic { /* the parts of the dynamic section that name slots */
    const ElfW(Rela) * rela[2];
    size_t bytes[2];
    const ElfW(Sym) * symbols;
    const char *strings;
} dynamic;

static bool covers(const struct dl_phdr_info *o, const void *at)
{
    for (uint32_t i = 0; i < o->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &o->dlpi_phdr[i];
        const uintptr_t from = o->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && (uintptr_t)at >= from && (uintptr_t)at < from + p->p_memsz)
            return true;
    }
    return false;
}

static dynamic read_dynamic(const struct dl_phdr_info *o)
{
    dynamic d = {0};
    for (uint32_t i = 0; i < o->dlpi_phnum; i++) {
        if (o->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        const ElfW(Dyn) *at = (const void *)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr);
        for (; at->d_tag != DT_NULL; at++)
            switch (at->d_tag) {
            case DT_JMPREL: d.rela[0] = (const void *)at->d_un.d_ptr; break;
            case DT_PLTRELSZ: d.bytes[0] = at->d_un.d_val; break;
            case DT_RELA: d.rela[1] = (const void *)at->d_un.d_ptr; break;
            case DT_RELASZ: d.bytes[1] = at->d_un.d_val; break;
            case DT_SYMTAB: d.symbols = (const void *)at->d_un.d_ptr; break;
            case DT_STRTAB: d.strings = (const void *)at->d_un.d_ptr; break;
            default: break;
            }
    }
    return d;
}

static void write_slot(void *slot, void (*with)(void))
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *first = (void *)((uintptr_t)slot / page * page);
    if (!mprotect(first, page, PROT_READ | PROT_WRITE)) /* read-only after relocation */
        memcpy(slot, &with, sizeof with);
}

static void replace(lookup *s, const struct dl_phdr_info *o, const ElfW(Rela) * r,
                    const char *symbol)
{
    if (s->imports && !strcmp(s->imports, symbol))
        s->found = true;
    for (const check_hooks *h = s->list; h && h->name; h++)
        if (!strcmp(h->name, symbol)) {
            write_slot((void *)(o->dlpi_addr + r->r_offset), h->with);
            s->written++;
        }
}

enum { GO_ON, STOP };

static int look_at(struct dl_phdr_info *o, size_t size, void *arg)
{
    (void)size;
    lookup *s = arg;
    const char *name = strrchr(o->dlpi_name, '/');
    name = name ? name + 1 : o->dlpi_name;
    if (s->inside ? !covers(o, s->inside) : strncmp(name, s->file_name, strlen(s->file_name)) != 0)
        return GO_ON;
    for (uint32_t i = 0; s->text && i < o->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &o->dlpi_phdr[i];
        const uintptr_t from = o->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && (p->p_flags & PF_X) != 0) {
            *s->text = (check_text){from, from + p->p_memsz};
            s->found = true;
        }
    }
    const dynamic d = read_dynamic(o);
    for (int k = 0; k < 2 && d.symbols && d.strings; k++)
        for (size_t i = 0; d.rela[k] && i < d.bytes[k] / sizeof *d.rela[k]; i++) {
            const ElfW(Rela) *r = &d.rela[k][i];
            if (IS_SLOT(ELF64_R_TYPE(r->r_info)))
                replace(s, o, r, d.strings + d.symbols[ELF64_R_SYM(r->r_info)].st_name);
        }
    return STOP;
}

uint32_t check_hook_object(const void *inside, const check_hooks *list)
{
    lookup s = {.inside = inside, .list = list};
    dl_iterate_phdr(look_at, &s);
    return s.written;
}

uint32_t check_hook_library(const char *name, const check_hooks *list)
{
    lookup s = {.file_name = name, .list = list};
    dl_iterate_phdr(look_at, &s);
    return s.written;
}

bool check_hook_imports(const void *inside, const char *symbol)
{
    lookup s = {.inside = inside, .imports = symbol};
    dl_iterate_phdr(look_at, &s);
    return s.found;
}

bool check_hook_text(const void *inside, check_text *out)
{
    lookup s = {.inside = inside, .text = out};
    dl_iterate_phdr(look_at, &s);
    return s.found;
}
