// How the packaged agent's daemon is started: it lives for months and mostly waits. A small nursery keeps what is thrown
// away from growing the heap, and code is compiled for size. Without the last of the four compilers, whose machine code alone
// is 5 MB of memory once it ran: the third makes our hot loops (checksums of logs) as fast. Runners have none of these.
/** Pools of memory for each thread would each keep what they had at their largest. */
export const AGENT_ENV = { MALLOC_ARENA_MAX: '2' } as const
export const AGENT_FLAGS = ['--max-semi-space-size=1', '--optimize-for-size', '--no-opt'] as const
