// The control plane's clock.

/** Wall-clock time for stored and displayed values; tests move it. */
export interface Clock {
  now(): number
}
