// Limits of the proxy, and of the steps that route to a new version. Every number has its reason; times are in
// milliseconds, sizes in bytes.
import { HOUR, KiB, MINUTE, MiB, SECOND } from '@berth/shared/units'

/** The edge and Caddy on one server. */
export const PROXY = {
  /**
   * How long Caddy caches an answer of the name server: every switch waits for it, every busy hostname is looked up
   * this often.
   */
  refreshMs: 200,
  /** An answer that Caddy got this long ago is no longer used: the refresh, plus a margin for lookups in flight. */
  settleMs: 300,
  /** How often a switch looks whether Caddy has asked again. */
  settlePollMs: 10,
  /** Names whose last answer is remembered; Caddy itself caches 100. */
  rememberedAnswers: 1_000,
  /** A shorter restart of an application or of the edge is bridged, so clients do not see it. */
  tryMs: 5 * SECOND,
  dialMs: 2 * SECOND,
  /** Below the idle timeout of common servers (Node: 5 s), so that they never close a connection first. */
  idleMs: 4 * SECOND,
  /** Time for running requests when the configuration changes. */
  graceMs: 10 * SECOND,
  /** Time for WebSockets, where Caddy supports it. */
  streamsMs: 6 * HOUR,
  /** One call of Caddy's admin socket. */
  adminMs: 5 * SECOND,
  /** A push, and its caller, may wait for running requests. */
  pushMs: 20 * SECOND,
  /** Pushes cut connections, so changes within this time are combined. */
  pushEveryMs: SECOND,
  /** Changes in one push. */
  pushBatch: 100,
  /** How long `switch` waits for a restarting Caddy. */
  waitForCaddyMs: 30 * SECOND,
  /** A call of the edge; longer than everything that it may wait for. */
  callMs: 60 * SECOND,
  connectMs: 2 * SECOND,
  lineBytes: 4 * MiB,
  connections: 64,
  routesPerEnvironment: 100,
  /** Of one route, or of one environment: twenty services with ten replicas. */
  containers: 200,
  /** How often edge and Caddy are checked, and about the longest outage after one was killed. */
  supervisionMs: 500,
  /** Priority of edge and Caddy; every other process has 0, and the lowest number goes first. */
  priority: -10,
  restartMs: SECOND,
  restartCapMs: 30 * SECOND,
  /** After this uptime the back-off starts again. */
  steadyMs: 60 * SECOND,
  /** A new edge waits this long for a silent engine, well below `startMs`. */
  firstLookMs: 3 * SECOND,
  /** An edge that is not up by then failed to start; a busy server needs many seconds. */
  startMs: MINUTE,
  /** How long the supervision waits for a new Caddy to listen. */
  listenMs: 10 * SECOND,
  stopMs: 15 * SECOND,
  /** Longer names do not fit into a name of the edge's zone. */
  hostLength: 230,
  probeMs: 5 * SECOND,
  probePollMs: 50,
  /** How often addresses of containers are looked up without the engine's events. */
  addressesMs: 30 * SECOND,
  /** How often routed sockets are checked; a restarted program is dialled after this. */
  socketsMs: 100,
  /** A socket that keeps changing is linked at most this often. */
  relinkMs: SECOND,
  /** Depth of Caddy's own folders; certificates are four deep. */
  homeDepth: 16,
  /** A package of 40 MB over a slow connection. */
  installMs: 10 * MINUTE,
  /** Go's GOGC for Caddy: half the collections of the default, for about 20 MB under full load. */
  gcPercent: 200,
  accessLogMiB: 50,
  accessLogs: 5,
  retryAfterSeconds: 5,
  portFrom: 30_000,
  portTo: 32_000,
} as const

/** Reading of the access log. */
export const REQUEST_LOG = {
  everyMs: 5 * SECOND,
  chunkBytes: 256 * KiB,
  /** A longer line is not counted; a hostname, a status and two times need a few hundred bytes. */
  lineBytes: 64 * KiB,
  /** Of one round: more than Caddy can write until the next one. */
  bytesPerRound: 64 * MiB,
  /** Caddy writes a line this long after its time at the latest. */
  settleMs: 2 * SECOND,
} as const

/** Steps of both recipes that move requests to a version. */
export const ROUTE_STEPS = {
  /** How long to wait for a proxy that is just starting; a missing one is reported immediately. */
  proxyWaitMs: 10 * SECOND,
  /** Least and longest drain of the old version after the switch, for requests in flight. */
  drainMinMs: 2 * SECOND,
  /** What takes longer to end (a long `stop_timeout`) does so after the deployment. */
  endMs: 15 * SECOND,
  drainMaxMs: 30 * SECOND,
  drainPollMs: 100,
  /** One handshake; a certificate may be issued just then. */
  handshakeMs: 5 * SECOND,
  probeMs: 10 * SECOND,
} as const
