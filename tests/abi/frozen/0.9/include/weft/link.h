#ifndef WEFT_LINK_H
#define WEFT_LINK_H
#include <weft/plugin.h>
WEFT_EXTERN_C_BEGIN
typedef struct weft_link weft_link;
typedef struct weft_conn weft_conn;
typedef struct weft_region weft_region;
#define WEFT_LINK_HOST 1u
#define WEFT_LINK_CUDA 2u
#define WEFT_LINK_REGISTER 4u
#define WEFT_LINK_MAP 8u
#define WEFT_LINK_WRITE 16u
#define WEFT_LINK_LOCAL 32u
#define WEFT_LINK_FD_CUDA 64u
#define WEFT_LINK_FD_DMABUF 128u
typedef struct weft_link_args {
    uint32_t struct_size, flags;
    uint32_t rank, ranks;
    uint32_t local_rank, local_ranks;
    const weft_conf *conf;
    const char *bind_addr;
    const char *job_id;
} weft_link_args;
WEFT_FREEZE(weft_link_args, job_id, 48);
typedef struct weft_link_group {
    uint32_t struct_size, flags;
    uint32_t same_machine;
    uint32_t device_caps;
    const char *bind_addr;
} weft_link_group;
WEFT_FREEZE(weft_link_group, bind_addr, 24);
typedef struct weft_conn_args {
    uint32_t struct_size, flags;
    uint32_t peer;
    uint32_t channel;
    const void *address;
    uint64_t bytes;
} weft_conn_args;
WEFT_FREEZE(weft_conn_args, bytes, 32);
typedef struct weft_memory {
    uint32_t struct_size, flags;
    void *base;
    uint64_t bytes;
    int32_t fd;
    uint32_t reserved;
} weft_memory;
WEFT_FREEZE(weft_memory, reserved, 32);
#define WEFT_WRITE_NOTIFY 1u
typedef struct weft_write {
    uint32_t struct_size, flags;
    const void *from;
    uint64_t bytes;
    weft_region *region;
    const void *key;
    uint64_t key_bytes;
    uint64_t offset;
} weft_write;
WEFT_FREEZE(weft_write, offset, 56);
typedef struct weft_link_table {
    uint32_t struct_size;
    uint32_t channels;
    uint64_t caps;
    weft_status (*probe)(void *module, const weft_conf *conf, const weft_link_group *group,
                         int32_t *score);
    weft_status (*create)(void *module, const weft_link_args *args, weft_link **out);
    void (*destroy)(weft_link *l);
    weft_status (*address)(weft_link *l, void *out, uint64_t *bytes);
    weft_status (*connect)(weft_link *l, const weft_conn_args *args, weft_conn **out);
    weft_status (*ready)(weft_conn *c);
    void (*disconnect)(weft_conn *c);
    weft_status (*send)(weft_conn *c, const void *from, uint64_t bytes, weft_region *region,
                        uint32_t flags);
    weft_status (*recv)(weft_conn *c, void *to, uint64_t bytes, weft_region *region,
                        uint32_t flags);
    weft_status (*progress)(weft_conn *c, uint32_t flags, uint64_t *sent, uint64_t *received);
    weft_status (*wait)(weft_link *l, uint32_t spin_us, uint32_t timeout_us, uint32_t flags);
    void (*wake)(weft_link *l);
    void (*abort)(weft_link *l);
    weft_status (*register_memory)(weft_link *l, const weft_memory *memory, weft_region **out);
    void (*deregister_memory)(weft_region *r);
    weft_status (*key)(weft_region *r, void *out, uint64_t *bytes);
    weft_status (*map)(weft_link *l, uint32_t peer, const void *key, uint64_t bytes, uint32_t flags,
                       void **base);
    weft_status (*write)(weft_conn *c, const weft_write *w);
    weft_status (*features)(void *module, const weft_conf *conf, uint64_t *caps,
                            uint32_t *channels);
} weft_link_table;
WEFT_FREEZE(weft_link_table, features, 168);
WEFT_EXTERN_C_END
#endif
