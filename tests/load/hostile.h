/* Two scenarios of burden.c: hostile clients of all kinds at once, and a good client beside
 * them. */
#ifndef LOAD_HOSTILE_H
#define LOAD_HOSTILE_H

/* SECONDS N KEY: N connections that attack, spread evenly over the kinds of hostile.c. KEY is
 * their API key, or "-". */
int run_hostile(int port, char **argv);
/* SECONDS KEY: one client that asks /health 50 times a second and chats 5 times a second. */
int run_good(int port, char **argv);

#endif
