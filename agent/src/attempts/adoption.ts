// What becomes of an attempt between STARTING and its end, judged from what lies on the disk (wire.md section
// 5). Pure. Asked when the daemon starts and again at every look: finding a runner dead is the same question as
// finding it dead after a restart. Nothing with a possible effect is ever repeated: only a missing claim proves
// that there was none.

export interface RunnerFacts {
  /** The last record of events.log is a terminal state, and it was imported. */
  terminal: boolean
  /** Who took the claim. */
  claim: 'none' | 'runner' | 'daemon'
  /** The claim was taken during this boot of the machine. */
  sameBoot: boolean
  /** A process with the claimed pid and start ticks exists. */
  alive: boolean
  /** This daemon spawned it moments ago, and its process may still take the claim, or tell how it ended. */
  starting: boolean
  /** It was spawned, and then its folder vanished with whatever it said. */
  folderLost: boolean
}

export type Adoption =
  | 'finished'
  | 'adopt'
  | 'wait'
  /** Take the claim ourselves; if that succeeds nobody will ever run it. */
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
