// `manual.tools`, with the real mise: the server's own programs where they fit, else those of mise, in every command of
// the environment; a clear failure before the steps otherwise. What the account can put there never runs as root.
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AttemptState, FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { isOnlyRoots } from '../../agent/src/machine/tool-manager.ts'
import { readLastLines } from '../../agent/src/service-logs/writer.ts'
import { instructionsOf } from '../../agent/src/supervise/control.ts'
import { fetchMise } from '../fixtures/server/mise.ts'
import { AgentHost } from '../fixtures/server/server.ts'

let host: AgentHost
beforeAll(() => {
  host = new AgentHost()
})
afterAll(() => host.close())

describe('without mise', () => {
  it('uses the program of the server if its version fits', async () => {
    const said = execFileSync('python3', ['--version'], { encoding: 'utf8' })
    const [, version = ''] = /([0-9]+\.[0-9]+)\.[0-9]+/.exec(said) ?? []
    const repository = host.repository('own')
    repository.commit({
      '.service.yml': `manual: { deploy: [python3 --version], tools: { python: ${version} } }\n`,
    })
    const deployment = await host.deploy(repository, {})
    expect((await deployment.verdict()).state, deployment.log()).toBe(AttemptState.SUCCEEDED)
    expect(deployment.log()).toContain(`python ${version}: the server's own python3 is ${version}.`)
  })

  it('fails before the steps, and says what to install', async () => {
    host.settings.mise = join(host.folder, 'planted')
    writeFileSync(host.settings.mise, '#!/bin/sh\n')
    const repository = host.repository('none')
    repository.commit({
      '.service.yml':
        'manual: { deploy: [touch "$BERTH_SHARED_DIR/ran"], tools: { node: 99.9.9 } }\n',
    })
    const fails = async (): Promise<string> => {
      const deployment = await host.deploy(repository, { environmentId: 2 })
      const verdict = await deployment.verdict()
      const code = FailureCode.CAPABILITY_MISSING
      expect(verdict).toMatchObject({ code, failedStepId: 'tools' })
      return verdict.message
    }
    chmodSync(host.settings.mise, 0o777)
    expect(await fails()).toContain('its mise is not used, because other accounts than root')
    delete host.settings.mise
    if (existsSync('/usr/local/bin/mise') || existsSync('/usr/bin/mise')) return
    expect(await fails()).toMatch(
      /^Server \S+ has no node 99\.9\.9.*, and no mise to install it\. Install mise there as \/usr\/local\/bin\/mise/,
    )
    expect(existsSync(join(environmentPaths(host.settings, 2).shared, 'ran'))).toBe(false)
  })
})

describe('with mise', () => {
  it('its programs come first in every command, and never run as root', async (t) => {
    const mise = fetchMise()
    if (!mise) return t.skip('mise cannot be fetched from the npm registry')
    expect(isOnlyRoots(mise)).toBe(true)
    host.settings.mise = mise
    const repository = host.repository('mise')
    // a version that only the environment's own mise has, so that nothing is downloaded
    const plant = 'for name in mount setpriv unshare mkdir rm cp; do cp node $name; done'
    repository.commit({
      'node/bin/node': '#!/bin/sh\n/usr/bin/id -u >>"$BERTH_SHARED_DIR/ran-as"\necho v99.9.9\n',
      '.service.yml': `manual:
  deploy:
    - cp -r node "$BERTH_SHARED_DIR/node"; cd "$BERTH_SHARED_DIR/node/bin"; chmod +x node; ${plant}
    - cd "$HOME"; ${mise} link node@99.9.9 "$BERTH_SHARED_DIR/node"
`,
    })
    const request = { environmentId: 3 }
    const first = await host.deploy(repository, request)
    expect((await first.verdict()).state, first.log()).toBe(AttemptState.SUCCEEDED)
    repository.commit({
      '.service.yml': `manual:
  tools: { node: 99.9 }
  deploy: [echo "step $(node --version)"]
  services: { one: { run: echo "service $(node --version)"; exec sleep 600 } }
actions: { act: { run: echo "action $(node --version)" } }
`,
    })
    const second = await host.deploy(repository, request)
    expect((await second.verdict()).state, second.log()).toBe(AttemptState.SUCCEEDED)
    expect(second.log()).toContain('step v99.9.9')
    const { logs, shared, home } = environmentPaths(host.settings, 3)
    expect(readLastLines(join(logs, 'one'), second.taskId)).toEqual(['service v99.9.9'])
    const action = await host.deploy(repository, { ...request, action: 'act' })
    expect((await action.verdict()).state).toBe(AttemptState.SUCCEEDED)
    expect(action.log()).toContain('action v99.9.9')
    const owner = String(execFileSync('stat', ['-c', '%u', shared])).trim()
    const ranAs = readFileSync(join(shared, 'ran-as'), 'utf8').trim().split('\n')
    expect([...new Set(ranAs)]).toEqual([owner])
    const ledger = host.ledger()
    const [row] = ledger.listProcesses(3)
    ledger.close()
    if (!row) throw new Error('no process')
    const { env, additions } = instructionsOf(row)
    expect(env.PATH).not.toContain(home)
    expect(additions.PATH).toMatch(/^\S+\/installs\/node\/[0-9.]+\/bin:/)
  })
})
