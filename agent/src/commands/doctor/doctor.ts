// `berth-agent doctor`: checks this server and says how to fix each problem. It changes nothing. Every wait is bounded, and
// what does not depend on each other is checked together. Exit code 1: there is a problem.
import {
  asJson,
  asText,
  type Finding,
  hasProblem,
  ok,
  warning,
  writeFindings,
} from '@berth/shared/findings'
import { lookAtParts } from '../../machine/host-parts.ts'
import { isRoot } from '../../machine/users/users.ts'
import type { AgentSettings } from '../../settings.ts'
import {
  checkDisk,
  checkEngine,
  checkFirewall,
  checkGroups,
  checkMemory,
  checkParts,
} from './host.ts'
import { checkLink } from './link.ts'
import { checkDaemon, checkProxy, checkSsh } from './running.ts'

export const DOCTOR_USAGE = `Usage: berth-agent doctor [--json | --problems]

  --json       Findings as JSON
  --problems   Only warnings and problems
`

const FORMATS = ['--json', '--problems']

async function examine(settings: AgentSettings): Promise<Finding[]> {
  const account = isRoot()
    ? ok('account', 'root')
    : warning('account', 'not root, so not everything can be seen', 'Run the doctor as root.')
  const { findings: engine, dataRoot } = await checkEngine(settings)
  const [link, daemon, ssh, proxy, firewall, parts] = await Promise.all([
    checkLink(settings),
    checkDaemon(settings),
    checkSsh(settings),
    checkProxy(settings),
    checkFirewall(settings),
    lookAtParts(settings),
  ])
  return [
    account,
    ...link,
    ...daemon,
    ...checkDisk(settings, dataRoot),
    checkMemory(),
    ...engine,
    checkGroups(),
    firewall,
    ...ssh,
    ...proxy,
    ...checkParts(parts),
  ]
}

export async function doctor(
  settings: AgentSettings,
  args: readonly string[],
  print: (text: string) => void,
): Promise<number> {
  const [format, ...more] = args
  if (more.length > 0 || (format !== undefined && !FORMATS.includes(format))) {
    process.stderr.write(DOCTOR_USAGE)
    return 2
  }
  const findings = await examine(settings)
  if (format === '--problems') {
    const bad = findings.filter(({ status }) => status === 'problem' || status === 'warning')
    for (const line of writeFindings(bad)) print(line)
  } else print(format === '--json' ? asJson(findings) : asText(findings))
  return hasProblem(findings) ? 1 : 0
}
