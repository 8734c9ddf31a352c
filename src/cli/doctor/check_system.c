/* CPUs and limits of the process. */
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cpus.h"
#include "base/file.h"
#include "base/host_file.h"
#include "base/pool.h"
#include "cli/doctor/checks.h"

enum { FILES_MIN = 4096 }; /* one per connection, and some for the files of a checkpoint */

static void check_kernel(struct findings *f)
{
    struct utsname name;

    if (uname(&name) == 0)
        finding_add(f, FINDING_good, "kernel", "%s %s on %s", name.sysname, name.release,
                    name.machine);
}

static void check_cpus(struct findings *f)
{
    const long n_online = sysconf(_SC_NPROCESSORS_ONLN);
    const int n_usable = pool_usable_cpus();

    if (n_usable < 2) {
        finding_add(f, FINDING_slow, "CPUs", "%d of %ld usable, at least 2 expected", n_usable,
                    n_online);
        finding_advise(f, "give the container or the unit more CPUs: the server's threads wait "
                          "for the thread that drives the GPU");
    } else
        finding_add(f, FINDING_good, "CPUs", "%d of %ld usable", n_usable, n_online);
}

/* "powersave" keeps the lowest frequency, except with drivers whose hardware chooses. */
static void check_governor(struct findings *f, const char *root)
{
    static const char FOLDER[] = "/sys/devices/system/cpu/cpu0/cpufreq";
    struct host_line governor, driver;

    if (!host_line(&governor, root, "%s/scaling_governor", FOLDER)) {
        finding_add(f, FINDING_untested, "CPU frequency", "the kernel does not control it");
        return;
    }
    (void)host_line(&driver, root, "%s/scaling_driver", FOLDER);
    if (strcmp(governor.text, "powersave") == 0 && strstr(driver.text, "pstate") == NULL) {
        finding_add(f, FINDING_slow, "CPU frequency",
                    "governor powersave: always the lowest frequency; performance expected");
        finding_advise(f, "sudo cpupower frequency-set -g performance");
    } else
        finding_add(f, FINDING_good, "CPU frequency", "governor %s", governor.text);
}

/* The server raises its soft limit to the hard one. */
static void check_files(struct findings *f)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < FILES_MIN) {
        finding_add(f, FINDING_broken, "open files",
                    "at most %llu, at least %d expected: connections will be refused",
                    (unsigned long long)limit.rlim_max, FILES_MIN);
        finding_advise(f, "raise the hard limit: ulimit -Hn, LimitNOFILE= of the unit, or "
                          "docker run --ulimit nofile=65536");
    } else
        finding_add(f, FINDING_good, "open files", "at most %llu",
                    (unsigned long long)limit.rlim_max);
}

/* osprey locks no memory; the limit is printed for other programs. */
static void check_locked(struct findings *f)
{
    struct rlimit limit;
    char text[16];

    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        return;
    format_bytes(text, (double)limit.rlim_cur);
    if (limit.rlim_cur == RLIM_INFINITY)
        finding_add(f, FINDING_good, "locked memory", "no limit");
    else
        finding_add(f, FINDING_good, "locked memory",
                    "at most %s; only RDMA needs more, which osprey does not use", text);
}

void check_system(struct findings *f, const char *root)
{
    f->group = "system";
    check_kernel(f);
    check_cpus(f);
    check_governor(f, root);
    check_files(f);
    check_locked(f);
}
