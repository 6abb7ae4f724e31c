// Renders the packet rules of this installation as input of iptables-restore. PURE: facts in, text out, and always all
// of our chains, so that applying them is one atomic step. The rules guarantee:
//   ports       only the environment's own account answers on a port that the ledger keeps for it, also when another
//               process takes the port while the service is down; only that account, root and the proxy connect to it;
//               nothing from outside does
//   edge        the same for the page server and the name server, which belong to root
//   accounts    processes of manual environments reach neither metadata addresses nor container networks
//   engine      the engine itself, which fetches what a Dockerfile ADDs, reaches none of these
//   forwarding  nothing that passes through this server reaches a metadata address; only this server itself and
//               containers of the same network open connections to a container of an environment
// DNS stays open, because port 53 of a metadata address is the resolver of some clouds.
import { createHash } from 'node:crypto'
import { METADATA_ADDRESSES } from '@berth/shared'

export type Family = 4 | 6

interface GuardedPort {
  port: number
  /** The account that may answer there. */
  uid: number
}

export interface FirewallFacts {
  /** Its hash names the chains; the rules that jump to them name the folder in a comment. */
  stateDir: string
  ports: readonly GuardedPort[]
  /** Undefined when Caddy has no account of its own. */
  caddyUid: number | undefined
  edge: { dnsPort: number; pagePort: number | undefined }
  /** Of manual environments. */
  accounts: readonly number[]
  /** The range from which every environment's network is allocated. */
  pool: string
  /** Subnets of the networks that this installation made. */
  networks: readonly string[]
  /** Of the engine's own process; undefined when it cannot be distinguished from other processes of root. */
  engineGroup: string | undefined
}

type Table = 'filter' | 'mangle'

/** A jump from a chain of the kernel to one of ours. */
interface Hook {
  table: Table
  from: string
  chain: string
  match: string
}

const TAG = 'berth-agent'
const DNS = 53

/** 16 letters; iptables accepts 28. */
const chainOf = (stateDir: string, letter: string): string =>
  `BERTH-${createHash('sha256').update(stateDir).digest('hex').slice(0, 8)}-${letter}`

export const CHAIN = /^BERTH-[0-9a-f]{8}-[A-Z]$/

const LETTERS: Record<Table, string> = { filter: 'OARDMEI', mangle: 'PF' }

export const chainsOf = (stateDir: string, table: Table): string[] =>
  [...LETTERS[table]].map((letter) => chainOf(stateDir, letter))

function hooksOf(stateDir: string, family: Family): Hook[] {
  const hook = (table: Table, from: string, letter: string, match = ''): Hook => {
    return { table, from, chain: chainOf(stateDir, letter), match }
  }
  return [
    hook('filter', 'OUTPUT', 'O'),
    hook('filter', 'INPUT', 'I', '! -i lo -p tcp --syn '),
    // before the engine's own chains, which accept what containers send, and before address translation
    hook('mangle', 'PREROUTING', 'P', '! -i lo '),
    ...(family === 4 ? [hook('mangle', 'FORWARD', 'F')] : []),
  ]
}

const SYN_ACK = '--tcp-flags SYN,ACK SYN,ACK'

/** Outgoing packets. The first rule passes all packets of an established connection but its first two. */
function outputRules(facts: FirewallFacts, family: Family): string[] {
  const { stateDir, ports, caddyUid, edge, pool } = facts
  const [out, answers, refuse, destinations, metadata, engine] = chainsOf(stateDir, 'filter')
  const { dnsPort, pagePort } = edge
  const guarded = [...ports, ...(pagePort ? [{ port: pagePort, uid: 0 }] : [])]
  const others = (uid: number): string => `-m owner ! --uid-owner ${uid}`
  const ofEngine = `-m cgroup --path ${facts.engineGroup}`
  const trusted = [0, ...(caddyUid === undefined ? [] : [caddyUid])]
  const addresses = METADATA_ADDRESSES[family === 4 ? 'v4' : 'v6']
  return [
    `-A ${out} -p tcp --tcp-flags SYN NONE -j RETURN`,
    ...(family === 4 ? [`-A ${out} -d ${pool} -j ${destinations}`] : []),
    ...addresses.map((address) => `-A ${out} -d ${address} -j ${metadata}`),
    `-A ${out} ! -o lo -j RETURN`,
    // the proxy sends requests to the address that it gets as DNS answer
    `-A ${out} -p udp --sport ${dnsPort} ${others(0)} -j DROP`,
    `-A ${out} ! -p tcp -j RETURN`,
    `-A ${out} -p tcp ${SYN_ACK} -g ${answers}`,
    ...(facts.engineGroup ? [`-A ${out} ${ofEngine} -j ${engine}`] : []),
    ...trusted.map((uid) => `-A ${out} -m owner --uid-owner ${uid} -j RETURN`),
    ...guarded.flatMap(({ port, uid }) => [
      `-A ${out} -p tcp --dport ${port} ${others(uid)} -j REJECT --reject-with tcp-reset`,
      // a simultaneous open of two clients needs no listener
      `-A ${out} -p tcp --sport ${port} ${others(uid)} -j REJECT --reject-with tcp-reset`,
    ]),
    // a kernel's RST has no owner and is no SYN-ACK, so connections to a stopped service are refused immediately
    ...guarded.map(
      ({ port, uid }) => `-A ${answers} -p tcp --sport ${port} ${others(uid)} -j DROP`,
    ),
    `-A ${metadata} -p udp --dport ${DNS} -j RETURN`,
    `-A ${metadata} -p tcp --dport ${DNS} -j RETURN`,
    `-A ${metadata} -j ${destinations}`,
    ...guarded.map(({ port }) => `-A ${engine} -p tcp --dport ${port} -j ${refuse}`),
    ...(facts.engineGroup ? [`-A ${destinations} ${ofEngine} -j ${refuse}`] : []),
    ...facts.accounts.map((uid) => `-A ${destinations} -m owner --uid-owner ${uid} -j ${refuse}`),
    `-A ${refuse} -p tcp -j REJECT --reject-with tcp-reset`,
    `-A ${refuse} -j REJECT`,
  ]
}

const inputRules = ({ stateDir, ports }: FirewallFacts): string[] =>
  ports.map(
    ({ port }) =>
      `-A ${chainOf(stateDir, 'I')} -p tcp --dport ${port} -j REJECT --reject-with tcp-reset`,
  )

function passingRules({ stateDir }: FirewallFacts, family: Family): string[] {
  const chain = chainOf(stateDir, 'P')
  const addresses = METADATA_ADDRESSES[family === 4 ? 'v4' : 'v6']
  return addresses.flatMap((address) => [
    `-A ${chain} -d ${address} -p udp --dport ${DNS} -j RETURN`,
    `-A ${chain} -d ${address} -p tcp --dport ${DNS} -j RETURN`,
    `-A ${chain} -d ${address} -j DROP`,
  ])
}

/** Answers to a container's own requests belong to connections that exist already. */
function forwardRules({ stateDir, pool, networks }: FirewallFacts): string[] {
  const chain = chainOf(stateDir, 'F')
  if (networks.length === 0) return []
  return [
    `-A ${chain} ! -d ${pool} -j RETURN`,
    `-A ${chain} -m conntrack ! --ctstate NEW -j RETURN`,
    ...networks.map((subnet) => `-A ${chain} -d ${subnet} ! -s ${subnet} -j DROP`),
  ]
}

/** Fits into a comment, without characters that would end it. */
const written = (stateDir: string): string => stateDir.replaceAll(/[^\w./-]/g, '_').slice(0, 200)

const hookRule = ({ stateDir }: Pick<FirewallFacts, 'stateDir'>, { from, chain, match }: Hook) =>
  `-I ${from} 1 ${match}-m comment --comment "${TAG} ${written(stateDir)}" -j ${chain}`

const section = (table: Table, lines: string[]): string =>
  `*${table}\n${lines.join('\n')}\nCOMMIT\n`

const isOurs = (rule: string): boolean => CHAIN.test(/ -j (\S+)$/.exec(rule)?.[1] ?? '')

/** Rules of the kernel's chain `from`, in order, from the output of iptables-save for one table. */
const rulesOf = (saved: string, from: string): string[] =>
  saved.split('\n').filter((line) => line.startsWith(`-A ${from} `))

/** Keeps our jump ahead of rules whose verdict would be final; jumps of other Berth installations may precede it. */
function hookChanges(facts: FirewallFacts, hook: Hook, saved: string): string[] {
  const rules = rulesOf(saved, hook.from)
  const present = rules.filter((rule) => rule.endsWith(` -j ${hook.chain}`))
  const first = rules.slice(0, rules.indexOf(present[0] ?? ''))
  if (present.length === 1 && first.every(isOurs)) return []
  return [...present.map((rule) => rule.replace(/^-A/, '-D')), hookRule(facts, hook)]
}

export type Saved = Record<Table, string>

/** `saved` is the output of iptables-save for each table. */
export function renderRules(facts: FirewallFacts, family: Family, saved: Saved): string {
  const { stateDir } = facts
  const rules: Record<Table, string[]> = {
    filter: [...outputRules(facts, family), ...inputRules(facts)],
    mangle: [...passingRules(facts, family), ...(family === 4 ? forwardRules(facts) : [])],
  }
  const hooks = hooksOf(stateDir, family)
  return (['mangle', 'filter'] as const)
    .map((table) =>
      section(table, [
        // naming an existing chain here empties it first
        ...chainsOf(stateDir, table).map((chain) => `:${chain} - [0:0]`),
        ...rules[table],
        ...hooks
          .filter((hook) => hook.table === table)
          .flatMap((hook) => hookChanges(facts, hook, saved[table])),
      ]),
    )
    .join('')
}

/** Removes every chain of one installation; undefined when there is none. */
export function renderRemoval(stateDir: string, saved: Saved): string | undefined {
  const parts = (['mangle', 'filter'] as const).flatMap((table) => {
    const lines = saved[table].split('\n')
    const own = chainsOf(stateDir, table)
    const present = own.filter((chain) => lines.some((line) => line.startsWith(`:${chain} `)))
    if (present.length === 0) return []
    const ways = lines.filter(
      (line) =>
        line.startsWith('-A ') &&
        own.some((c) => line.endsWith(` -j ${c}`)) &&
        !own.some((c) => line.startsWith(`-A ${c} `)),
    )
    const removals = [
      ...ways.map((line) => line.replace(/^-A/, '-D')),
      ...present.map((chain) => `-F ${chain}`),
      ...present.map((chain) => `-X ${chain}`),
    ]
    return [section(table, removals)]
  })
  return parts.length > 0 ? parts.join('') : undefined
}
