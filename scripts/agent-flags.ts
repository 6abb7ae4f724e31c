// Flags of the packaged agent's daemon, which runs for months and mostly waits. A small nursery keeps garbage from
// growing the heap, and code is compiled for size. The top compiler is off, because its machine code takes 5 MB; the
// third one is as fast for our hot loops (checksums of logs). Runners have none of these flags.
/** Each thread's own memory pool would stay at its largest size. */
export const AGENT_ENV = { MALLOC_ARENA_MAX: '2' } as const
export const AGENT_FLAGS = ['--max-semi-space-size=1', '--optimize-for-size', '--no-opt'] as const
