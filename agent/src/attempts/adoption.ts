// Decides what becomes of an attempt between STARTING and its end, from what is on the disk. Pure. Used when the daemon
// starts and at every check, because a dead runner is the same case as one found dead after a restart. Nothing with a
// possible effect is repeated: only a missing claim proves that there was no effect.

export interface RunnerFacts {
  /** The last record of events.log is a terminal state, and it was imported. */
  terminal: boolean
  /** Who took the claim. */
  claim: 'none' | 'runner' | 'daemon'
  /** The claim was taken during this boot of the machine. */
  sameBoot: boolean
  /** A process with the claimed pid and start ticks exists. */
  alive: boolean
  /** This daemon spawned it moments ago; its process may still take the claim or report how it ended. */
  starting: boolean
  /** It was spawned, and then its folder vanished with everything it had written. */
  folderLost: boolean
}

export type Adoption =
  | 'finished'
  | 'adopt'
  | 'wait'
  /** Take the claim ourselves; if that succeeds, no process will ever run the attempt. */
  | 'abandon'
  | 'not_started'
  | 'runner_died'
  | 'host_rebooted'

export function decideAdoption(f: RunnerFacts): Adoption {
  if (f.terminal) return 'finished'
  if (f.folderLost) return 'runner_died'
  switch (f.claim) {
    case 'none':
      return f.starting ? 'wait' : 'abandon'
    case 'daemon':
      return 'not_started'
    case 'runner':
      if (!f.sameBoot) return 'host_rebooted'
      return f.alive ? 'adopt' : 'runner_died'
  }
}
