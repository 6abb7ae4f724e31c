// Time as the control plane sees it.

/** Wall-clock time, for what is stored and shown; tests move it. */
export interface Clock {
  now(): number
}
