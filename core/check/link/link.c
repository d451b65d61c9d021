/* check/link/link.c: transports: the table of the group. */
#include "check/link/link.h"

#define LINKS "weft.link/1"

static const check checks[] = {
    {105, LINKS, 12, "The k-th send of a connection meets the k-th receive",
     "messages of mixed sizes change places", check_link_order},
    {106, LINKS, 35,
     "Messages of 0 and 1 byte, of odd sizes and places, and of over 4 GiB arrive whole",
     "a message is lost, cut or waits for ever", check_link_sizes},
    {118, LINKS, 20, "A peer whose process was killed is WEFT_PEER in bounded time",
     "the connection waits for ever, or fails with another status", check_link_death},
    {0},
};
const check_group check_group_link = {"link", "Link", checks};
