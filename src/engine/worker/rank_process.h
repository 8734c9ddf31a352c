/* A rank other than 0 as a process: it opens its part of the model, and runs the steps that rank 0,
 * which is the worker (worker.h), sends. */
#ifndef ENGINE_WORKER_RANK_PROCESS_H
#define ENGINE_WORKER_RANK_PROCESS_H

#include "osprey.h"

/* The arguments with which a program starts itself as a rank; no command has these names. The first
 * is followed by the address of rank 0, for mpirun. The second is for a rank whose launcher has set
 * the variables of dist/rank_env.h. */
#define RANK_ARGUMENT       "--osprey-rank"
#define RANK_CHILD_ARGUMENT "--osprey-rank-child"

/* The exit status of a rank, or -1: argv was made for something else. */
int rank_process_main(int argc, char **argv);

#endif
