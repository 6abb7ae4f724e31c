// Time as the daemon sees it. Wall time is shown to people and never decides; durations are monotonic. On Linux
// the monotonic clock counts from the boot, so it goes on over a restart of the daemon.
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /** Milliseconds since the boot of the machine. */
  mono(): number
  /** In [0, 1). */
  random(): number
}

export const systemClock: Clock = {
  now: () => Date.now(),
  mono: () => Number(process.hrtime.bigint() / 1_000n) / 1_000,
  random: () => Math.random(),
}
