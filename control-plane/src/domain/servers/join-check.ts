// What keeps a join command from working on a server, found before a token is made. PURE.

interface JoinFacts {
  /** The address of this control plane. */
  baseUrl: string
  /** host:port, as agents dial them. */
  agentEndpoints: readonly string[]
  /** The new server's name or address. */
  hostname: string
  /** `linux-x64`, `linux-arm64`. */
  platforms: readonly string[]
}

export interface JoinProblem {
  code: 'address_local' | 'address_plain' | 'agent_address_local' | 'no_package'
  message: string
}

const PLATFORMS = ['linux-x64', 'linux-arm64'] as const

/** Names that mean a different machine on every machine. */
function isLocal(host: string): boolean {
  const plain = host.replace(/^\[(.*)\]$/, '$1').toLowerCase()
  return (
    plain === 'localhost' ||
    plain.endsWith('.localhost') ||
    plain === '::1' ||
    plain === '::' ||
    plain === '0.0.0.0' ||
    /^127\.\d+\.\d+\.\d+$/.test(plain)
  )
}

const hostOfEndpoint = (endpoint: string): string => endpoint.replace(/:\d+$/, '')

/** A server on the same machine as the control plane may use local addresses. */
export function findJoinProblems(facts: JoinFacts): JoinProblem[] {
  const problems: JoinProblem[] = []
  const { baseUrl, hostname } = facts
  const url = new URL(baseUrl)
  const isSameMachine = isLocal(hostname)
  if (isLocal(url.hostname)) {
    if (!isSameMachine) {
      problems.push({
        code: 'address_local',
        message: `Berth's address is ${baseUrl}, which ${hostname} cannot reach. Set BERTH_URL to an address that your servers can reach, then restart Berth.`,
      })
    }
  } else if (url.protocol === 'http:') {
    problems.push({
      code: 'address_plain',
      message: `Berth's address is ${baseUrl}, without TLS. The join token would travel unencrypted, so the agent refuses it. Set BERTH_URL to an https address, then restart Berth.`,
    })
  }
  const reachable = facts.agentEndpoints.filter((one) => !isLocal(hostOfEndpoint(one)))
  if (!isSameMachine && !isLocal(url.hostname) && reachable.length === 0) {
    problems.push({
      code: 'agent_address_local',
      message: `Agents would connect to ${facts.agentEndpoints.join(', ')}, which ${hostname} cannot reach. Set BERTH_AGENT_ENDPOINTS to an address that your servers can reach, then restart Berth.`,
    })
  }
  if (facts.platforms.length === 0) {
    problems.push({
      code: 'no_package',
      message:
        'This control plane has no agent package to install. Use a release of Berth, or run npm run bundle where the control plane is installed.',
    })
  }
  return problems
}

/** Processors that no package fits, as people name them. */
export const missingPlatforms = (platforms: readonly string[]): string[] =>
  PLATFORMS.filter((one) => !platforms.includes(one)).map((one) => one.replace('linux-', ''))
