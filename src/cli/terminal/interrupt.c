#include "cli/terminal/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* Each Ctrl-C puts a byte into a pipe, so that poll() can wait for it together with input,
 * whichever thread gets the signal. */
static int interrupt_pipe[2] = {-1, -1};

static void on_interrupt(int number)
{
    int error = errno;

    (void)number;
    if (write(interrupt_pipe[1], "", 1) < 0) /* the pipe is full of earlier ones */
        errno = error;
}

void interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};

    if (interrupt_pipe[0] < 0 && pipe2(interrupt_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        return; /* Ctrl-C then ends the program as usual */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

int interrupt_descriptor(void)
{
    return interrupt_pipe[0];
}

bool interrupt_consume(void)
{
    bool taken = false;
    char bytes[64];

    while (interrupt_pipe[0] >= 0 && read(interrupt_pipe[0], bytes, sizeof bytes) > 0)
        taken = true;
    return taken;
}
