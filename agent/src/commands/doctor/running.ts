// Checks what runs on this server for Berth: the daemon and its unit, sshd, Caddy, and the ports.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SSH_ACCOUNTS } from '@berth/shared'
import { type Finding, ok, problem, skipped, warning } from '@berth/shared/findings'
import { findCaddy } from '../../machine/caddy-program.ts'
import { findListeners, nameHolder } from '../../machine/process/ports.ts'
import { locateProgram, runProgram } from '../../machine/process/programs.ts'
import { findAccount, isRoot } from '../../machine/users/users.ts'
import { readStatus } from '../../maintenance/status.ts'
import { findCaddyAccount } from '../../proxy/caddy/account.ts'
import { edgePaths } from '../../proxy/paths.ts'
import { isAlive, readProxyProcess } from '../../proxy/process-files.ts'
import type { AgentSettings } from '../../settings.ts'
import { relayAccount, sshPaths } from '../../ssh/paths.ts'
import { DROP_IN } from '../../ssh/ssh-service.ts'
import { findDaemon, findFault } from '../../ssh/sshd/control.ts'
import { isInstalled, UNIT } from '../uninstall/installed.ts'
import { hasSystemd } from '../uninstall/processes.ts'

const START = 'systemctl enable --now berth-agent'

export async function checkDaemon(settings: AgentSettings): Promise<Finding[]> {
  const findings: Finding[] = []
  if (isInstalled(settings) && hasSystemd()) {
    const ask = async (word: string): Promise<string> =>
      (await runProgram(['systemctl', word, UNIT])).stdout.toString('utf8').trim()
    const [isEnabled, isActive] = [await ask('is-enabled'), await ask('is-active')]
    if (isEnabled !== 'enabled') {
      const fix = `Run: ${START}`
      findings.push(problem('unit', `${UNIT} is ${isEnabled || 'not installed'}`, fix))
    } else if (isActive !== 'active') {
      const fix = `Look at its log (journalctl -u berth-agent), then run: ${START}`
      findings.push(problem('unit', `${UNIT} is ${isActive}`, fix))
    } else findings.push(ok('unit', `${UNIT} is enabled and active`))
  }
  const status = readStatus(settings)
  const look = 'Look at its log: journalctl -u berth-agent, or /var/lib/berth/agent.log.'
  if (!status) {
    const how = hasSystemd() ? START : 'berth-agent run, with your service manager'
    findings.push(problem('daemon', 'it does not run', `Start it: ${how}. ${look}`))
  } else if (status.phase !== 'active') {
    const message = `pid ${status.pid}, not connected (${status.phase}) since ${status.since}`
    findings.push(problem('daemon', message, look))
  } else findings.push(ok('daemon', `pid ${status.pid}, connected since ${status.since}`))
  return findings
}

export async function checkSsh(settings: AgentSettings): Promise<Finding[]> {
  const subject = 'sshd'
  if (settings.ssh.mode === 'off') return [skipped(subject, 'switched off (BERTH_SSH=off)')]
  const program = locateProgram('sshd')
  if (!program) {
    const fix = 'Install it: apt-get install openssh-server. The daemon sets it up within minutes.'
    return [warning(subject, 'not installed, so nobody can use berth ssh and berth logs', fix)]
  }
  if (!isRoot()) return [skipped(subject, 'only root sees its files', 'Run the doctor as root.')]
  const { dropIns, authorities, ownPidFile } = sshPaths(settings)
  const restart = 'Restart the daemon; it sets SSH up. The server page shows why it cannot.'
  const findings: Finding[] = []
  const fault = existsSync(settings.ssh.config)
    ? await findFault({ argv: [program], ...settings.ssh })
    : `${settings.ssh.config} does not exist`
  if (settings.ssh.mode === 'auto' && fault) {
    const fix = `Correct ${settings.ssh.config}; Berth does not touch an invalid one, and uses an sshd of its own.`
    findings.push(warning(subject, `its configuration is refused: ${fault}`, fix))
  }
  const isIn = existsSync(join(dropIns, DROP_IN))
  const own = findDaemon({ pidFile: ownPidFile })
  if (isIn && findDaemon({ pidFile: settings.ssh.pidFile }) === undefined) {
    findings.push(problem(subject, 'Berth is set up in it, and it does not run', 'Start it.'))
  } else if (isIn) findings.push(ok(subject, `${join(dropIns, DROP_IN)} is in the server's sshd`))
  else if (own !== undefined) {
    const fix = `Open port ${settings.ssh.own.port}; the server page shows why the server's sshd is not used.`
    findings.push(
      settings.ssh.mode === 'dedicated'
        ? ok(subject, `Berth's own, pid ${own}, port ${settings.ssh.own.port}`)
        : warning(subject, `Berth's own runs on port ${settings.ssh.own.port}`, fix),
    )
  } else findings.push(problem(subject, 'Berth is not set up in it', restart))
  if (!existsSync(authorities) || readFileSync(authorities, 'utf8').trim() === '') {
    findings.push(problem('SSH authority', `${authorities} names no authority`, restart))
  } else findings.push(ok('SSH authority', authorities))
  for (const role of SSH_ACCOUNTS) {
    const name = relayAccount(settings, role)
    if (!(await findAccount(name))) {
      findings.push(problem('SSH accounts', `${name} is missing`, restart))
    }
  }
  return findings
}

export async function checkProxy(settings: AgentSettings): Promise<Finding[]> {
  const subject = 'Caddy'
  if (settings.proxy.managed === false) return [skipped(subject, 'switched off (BERTH_PROXY=off)')]
  const setUp = 'Run: berth-agent setup proxy'
  const findings: Finding[] = []
  const found = await findCaddy(settings)
  if (!found?.version) return [problem(subject, 'it is not installed', setUp)]
  if (isRoot() && !(await findCaddyAccount(settings))) {
    findings.push(problem(subject, 'its account is missing, and it never runs as root', setUp))
  }
  const paths = edgePaths(settings)
  const [caddy, edge] = [paths.caddyProcess, paths.edgeProcess].map(readProxyProcess)
  const isUp = isAlive(caddy)
  const reason = [caddy, readProxyProcess(paths.edgeStart)].find((one) => one?.reason)?.reason
  const start = 'Start the daemon, which starts both; then look at the server page.'
  if (!isUp || !isAlive(edge)) {
    const what = isUp ? 'the edge does not run' : `${found.version} does not run`
    findings.push(problem(subject, reason ? `${what}: ${reason.replace(/\.$/, '')}` : what, start))
  } else findings.push(ok(subject, `${found.version} runs, pid ${caddy?.pid}`))
  for (const endpoint of [settings.proxy.http, settings.proxy.https]) {
    if (endpoint) findings.push(checkPort(endpoint.port, isUp))
  }
  return findings
}

function checkPort(port: number, isServed: boolean): Finding {
  const subject = `port ${port}`
  const holders = findListeners(port)
  if (isServed && holders.length > 0) return ok(subject, 'served by Berth')
  if (holders.length === 0) return ok(subject, isServed ? 'not in use yet' : 'free')
  const fix = 'Stop that program, or move it to another port: Berth needs this one.'
  return problem(subject, `held by ${nameHolder(holders)}`, fix)
}
