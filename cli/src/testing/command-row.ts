// One command in the tests that go through all of them.
import type { Everything } from './everything.ts'
import type { Peer } from './peer.ts'

export interface Row {
  /** Words after the command's own. */
  args?: string[]
  /** stdout in a pipe. */
  pipe: RegExp
  /** Both streams on a terminal. */
  shown: RegExp
  /** `lines`: a stream, one document per line. `none`: the output is not data. */
  json?: 'lines' | 'none'
  /** Contacts no server. */
  offline?: true
  /** The change it makes; refused, it exits with 6. */
  changes?: string
  /** Other possible exit codes. */
  exits?: [code: number, args: string[], prepare?: (peer: Peer, env: Everything) => void][]
}
