// Limits between the control planes of one installation. Every number has its reason; times are in milliseconds.
import { DAY, MINUTE, SECOND } from '@berth/shared/units'

export const PEERS = {
  /** Renewed while the process runs, so a copied one is of use for a day at most. */
  certificateMs: DAY,
  renewRetryMs: MINUTE,
  /** A peer that cannot be reached by now is treated like one that died; they are in one network. */
  dialMs: 3 * SECOND,
  /** A peer that stopped answering is noticed within their sum, which is the length of its lease. */
  keepaliveMs: 5 * SECOND,
  keepaliveTimeoutMs: 5 * SECOND,
  /** Far more control planes than one database carries. */
  connections: 64,
  /** Each of them dials once, so more that are silent or slow are not peers. The oldest end. */
  pendingHandshakes: 128,
  /** A handshake that would begin later is refused at once, for a peer has given up by then. */
  handshakeWaitMs: 2 * SECOND,
  /** Questions and uploads from one peer together. */
  streamsPerConnection: 2_000,
  /** Uploads that are passed on to all peers together; each holds a few windows of memory when its reader is slow. */
  deliveries: 500,
  /** A connection without calls is closed after this; opening one costs 10 ms. */
  idleMs: MINUTE,
  /** How often connections to peers whose lease is over are looked for. */
  lookMs: 2 * SECOND,
  /** A peer has this much longer than the agent, so that the agent's lateness is reported as such. */
  askExtraMs: SECOND,
  /**
   * A request waits this long for an agent between two control planes: it tries again within a second, then within two,
   * and a handshake takes less than one. Agents that come later find people who tried again.
   */
  agentReturnsMs: 5 * SECOND,
  agentLookMs: 200,
  /** While an upload runs whose agent another control plane holds, its session is looked for this often. */
  sessionLookMs: 5 * SECOND,
  drainMs: 5 * SECOND,
} as const
