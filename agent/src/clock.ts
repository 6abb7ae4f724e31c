// Time in the daemon. Wall time is only shown to users; decisions use monotonic durations. On Linux the monotonic clock
// counts from boot, so it continues over a restart of the daemon.
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
