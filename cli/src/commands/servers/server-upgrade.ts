// berth server upgrade: one server's agent, or all outdated ones in waves. It returns at once; --wait follows the rollout.
import { randomUUID } from 'node:crypto'
import { AgentRollout, AgentUpdates } from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { ApiFailure } from '../../client/problem.ts'
import { pauseMs, pollInterval } from '../../client/wait.ts'
import { type Context, compose, flagOn, type Invocation } from '../../context.ts'
import { CliError, EXIT, type ExitCode, interrupted, usage } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import { findServer } from './servers.ts'

interface ServerUpgradeOptions {
  /** Undefined: all. */
  name: string | undefined
  scope: 'organization' | 'installation'
  wait: boolean
}

function parseServerUpgrade({ args, flags }: Invocation): ServerUpgradeOptions {
  const [name] = args
  const everywhere = flagOn(flags, 'installation')
  const all = flagOn(flags, 'all') || everywhere
  if (all === (name !== undefined)) {
    throw usage('name one server, or take --all', 'berth server list shows their versions')
  }
  return {
    name,
    scope: everywhere ? 'installation' : 'organization',
    wait: flagOn(flags, 'wait'),
  }
}

/** `3 of 5 servers run 1.16.0, 1 is being upgraded` */
export function describeRollout({ version, servers }: AgentRollout): string {
  const { kept, offered, waiting, failed, skipped } = servers
  const all = kept + offered + waiting + failed
  return [
    `${kept} of ${all} ${all === 1 ? 'server runs' : 'servers run'} ${version}`,
    ...(offered > 0 ? [`${offered} being upgraded`] : []),
    ...(waiting > 0 ? [`${waiting} waiting`] : []),
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(skipped > 0 ? [`${skipped} left out`] : []),
  ].join(', ')
}

async function performServerUpgrade(
  options: ServerUpgradeOptions,
  context: Context,
): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const path =
    options.name === undefined
      ? '/api/agent_updates'
      : `/api/servers/${(await findServer(api, options.name, 'change')).id}/upgrade`
  const begun = await api.post(path, AgentRollout, {
    ...(options.name === undefined ? { body: { scope: options.scope } } : {}),
    idempotencyKey: randomUUID(),
    expect: 202,
  })
  const { value, raw } = options.wait ? await follow(context, api, begun.value) : begun
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) await screen.print(`${value.id}\t${value.version}\t${value.state}`)
  if (value.state === 'failed') {
    throw new CliError(EXIT.error, `the upgrade stopped: ${cleanText(value.reason ?? '')}`)
  }
  const mark = value.state === 'done' ? '✓' : '…'
  await screen.note(`${screen.err.paint('green', mark)} ${describeRollout(value)}`)
  if (value.state === 'running') await screen.note('berth server list shows the progress')
  return EXIT.done
}

async function follow(
  { screen, io }: Context,
  api: Api,
  begun: AgentRollout,
): Promise<{ value: AgentRollout; raw: unknown }> {
  let said = ''
  try {
    for (let failures = 0; ; ) {
      try {
        const { value } = await api.get('/api/agent_updates', AgentUpdates)
        const found = value.rollouts.find(({ id }) => id === begun.id)
        failures = 0
        if (found?.state !== 'running') return { value: found ?? begun, raw: found ?? begun }
        const now = describeRollout(found)
        if (now !== said) await screen.note(now)
        said = now
      } catch (error) {
        const isPassing = error instanceof ApiFailure && (error.status ?? 500) >= 500
        if (!isPassing) throw error
        failures++
      }
      await io.sleep(pauseMs(pollInterval(io), 0, failures))
    }
  } catch (error) {
    if (io.interrupted.aborted) {
      throw interrupted('stopped waiting; the upgrade goes on', 'berth server list shows it')
    }
    throw error
  }
}

export const serverUpgrade = compose(parseServerUpgrade, performServerUpgrade)
