/* check/file/elf.c: a bounded reader of shared objects. See elf.h. */
#include "check/file/elf.h"

#include <elf.h>
#include <string.h>

#define STRING_MAX 4096u

static bool inside(const check_elf *e, uint64_t at, uint64_t bytes)
{
    return at <= e->bytes && bytes <= e->bytes - at;
}

static bool take(const check_elf *e, uint64_t at, void *out, size_t bytes)
{
    if (!inside(e, at, bytes))
        return false;
    memcpy(out, e->at + at, bytes);
    return true;
}

static bool refuse(check_elf *e, const char *why)
{
    e->why = why;
    return false;
}

/* The text at an offset of the dynamic string table; NULL: outside, too long or without an end. */
static const char *text(const check_elf *e, uint64_t offset)
{
    if (offset >= e->nstrings)
        return NULL;
    const char *at = (const char *)e->at + e->strings + offset;
    const uint64_t capacity = e->nstrings - offset;
    const size_t max = capacity < STRING_MAX ? (size_t)capacity : STRING_MAX;
    return memchr(at, 0, max) ? at : NULL;
}

static bool read_dynamic(check_elf *e)
{
    Elf64_Phdr p;
    for (uint32_t i = 0; i < e->nheaders; i++) {
        if (!take(e, e->headers + (uint64_t)i * sizeof p, &p, sizeof p))
            return refuse(e, "its program headers are past its end");
        if (p.p_type != PT_DYNAMIC)
            continue;
        if (!inside(e, p.p_offset, p.p_filesz))
            return refuse(e, "its dynamic section is past its end");
        e->dynamic = p.p_offset;
        e->ndynamic = p.p_filesz / sizeof(Elf64_Dyn);
        return true;
    }
    return refuse(e, "it has no dynamic section");
}

static bool read_tables(check_elf *e, const Elf64_Ehdr *h)
{
    Elf64_Shdr s, strings;
    for (uint32_t i = 0; i < h->e_shnum; i++) {
        if (!take(e, h->e_shoff + (uint64_t)i * sizeof s, &s, sizeof s))
            return refuse(e, "its section headers are past its end");
        if (s.sh_type != SHT_DYNSYM)
            continue;
        if (s.sh_link >= h->e_shnum ||
            !take(e, h->e_shoff + (uint64_t)s.sh_link * sizeof s, &strings, sizeof strings) ||
            !inside(e, s.sh_offset, s.sh_size) || !inside(e, strings.sh_offset, strings.sh_size))
            return refuse(e, "its table of dynamic symbols is past its end");
        e->symbols = s.sh_offset;
        e->nsymbols = s.sh_size / sizeof(Elf64_Sym);
        e->strings = strings.sh_offset;
        e->nstrings = strings.sh_size;
        return true;
    }
    return refuse(e, "it has no section of dynamic symbols (is it stripped of section headers?)");
}

bool check_elf_read(check_elf *e, const void *at, size_t bytes)
{
    Elf64_Ehdr h;
    *e = (check_elf){.at = at, .bytes = bytes};
    if (!take(e, 0, &h, sizeof h) || memcmp(h.e_ident, ELFMAG, SELFMAG))
        return refuse(e, "it has no ELF header");
    if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB)
        return refuse(e, "it is not 64-bit little-endian ELF");
    if (h.e_type != ET_DYN || h.e_phentsize != sizeof(Elf64_Phdr) ||
        (h.e_shnum && h.e_shentsize != sizeof(Elf64_Shdr)))
        return refuse(e, "it is not a shared object");
    if (h.e_phoff > bytes || h.e_shoff > bytes)
        return refuse(e, "its headers are past its end");
    e->headers = h.e_phoff;
    e->nheaders = h.e_phnum;
    return read_dynamic(e) && read_tables(e, &h);
}

const char *check_elf_symbol(const check_elf *e, uint64_t i, bool *defined, bool *global,
                             bool *weak)
{
    Elf64_Sym s;
    if (i >= e->nsymbols || !take(e, e->symbols + i * sizeof s, &s, sizeof s))
        return NULL;
    const unsigned bind = ELF64_ST_BIND(s.st_info), visible = ELF64_ST_VISIBILITY(s.st_other);
    *defined = s.st_shndx != SHN_UNDEF;
    *global = bind != STB_LOCAL && (visible == STV_DEFAULT || visible == STV_PROTECTED);
    *weak = bind == STB_WEAK;
    const char *name = text(e, s.st_name);
    return name ? name : "";
}

bool check_elf_dynamic(const check_elf *e, int64_t tag, uint64_t *value)
{
    Elf64_Dyn d;
    for (uint64_t i = 0; i < e->ndynamic; i++) {
        if (!take(e, e->dynamic + i * sizeof d, &d, sizeof d) || d.d_tag == DT_NULL)
            return false;
        if (d.d_tag == tag) {
            *value = d.d_un.d_val;
            return true;
        }
    }
    return false;
}

const char *check_elf_dynamic_text(const check_elf *e, int64_t tag, uint32_t k)
{
    Elf64_Dyn d;
    for (uint64_t i = 0; i < e->ndynamic; i++) {
        if (!take(e, e->dynamic + i * sizeof d, &d, sizeof d) || d.d_tag == DT_NULL)
            return NULL;
        if (d.d_tag == tag && !k--)
            return text(e, d.d_un.d_val);
    }
    return NULL;
}

bool check_elf_segment(const check_elf *e, uint32_t type, uint32_t *flags, uint64_t *bytes)
{
    Elf64_Phdr p;
    for (uint32_t i = 0; i < e->nheaders; i++) {
        if (!take(e, e->headers + (uint64_t)i * sizeof p, &p, sizeof p))
            return false;
        if (p.p_type == type) {
            *flags = p.p_flags;
            *bytes = p.p_memsz;
            return true;
        }
    }
    return false;
}
