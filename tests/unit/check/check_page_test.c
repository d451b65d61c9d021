/* Is the sentence of the process that fails first kept, whoever else fails meanwhile? */

#include <test.h>

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check/page.h"

static check_page *new_page(void)
{
    check_page *p = NULL;
    const int fd = check_page_create(&p);
    assert_true(fd >= 0);
    close(fd);
    check_page_use(p);
    return p;
}

static int status_of(pid_t pid)
{
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* The second does not go on, to end its process and so the first's, before the first has written.
 */
TEST(test_the_second_waits_for_the_first)
{
    check_page *p = new_page();
    atomic_store(&p->taken, 1); /* this process writes */
    const pid_t second = fork();
    if (!second) {
        check_page_write(CHECK_CRASH, "the second", "");
        _exit(atomic_load(&p->outcome) != CHECK_FAIL || strcmp(p->text, "the first") != 0);
    }
    usleep(200000); /* where it does not wait it has most likely gone on by now */
    memcpy(p->text, "the first", sizeof "the first");
    atomic_store(&p->outcome, CHECK_FAIL);
    assert_int_equal(status_of(second), 0);
    assert_string_equal(p->text, "the first");
}

/* One that was killed while it wrote holds nobody up. */
TEST(test_a_dead_first_is_not_waited_for)
{
    check_page *p = new_page();
    atomic_store(&p->taken, 1);
    check_page_write(CHECK_FAIL, "the second", "");
    assert_false(check_page_is_written());
}

static void fails(int number)
{
    (void)number;
    check_page_write(CHECK_CRASH, "the handler", "");
    _exit(1);
}

/* Handlers of signals write, too: at any moment of a write of the thread that they interrupt. */
TEST(test_a_handler_finds_a_whole_sentence)
{
    for (int i = 0; i < 200; i++) {
        check_page *p = new_page();
        int ready[2];
        assert_int_equal(pipe(ready), 0);
        const pid_t writer = fork();
        if (!writer) {
            signal(SIGTERM, fails);
            (void)!write(ready[1], "r", 1);
            for (volatile int k = 0; k < i * 100; k++)
                continue;
            check_page_write(CHECK_FAIL, "the thread", "");
            _exit(1);
        }
        char byte;
        assert_int_equal(read(ready[0], &byte, 1), 1);
        kill(writer, SIGTERM);
        (void)status_of(writer);
        close(ready[0]);
        close(ready[1]);
        assert_string_equal(p->text, p->outcome == CHECK_FAIL ? "the thread" : "the handler");
    }
}
