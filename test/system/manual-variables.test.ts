// `variables` of a manual service: its process gets only the named custom variables, and its log masks all of them.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { AttemptState } from '@berth/shared/wire'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { readLastLines } from '../../agent/src/service-logs/writer.ts'
import { AgentHost } from '../fixtures/server/server.ts'

let host: AgentHost
beforeAll(() => {
  host = new AgentHost()
})
afterAll(() => host.close())

const say = (name: string): string =>
  `echo "${name} \${A-none} \${B-none} \${C-none} $(basename "$BERTH_VARIABLES_FILE")"; cat "$BERTH_SHARED_DIR/value"; exec sleep 600`

it('a service gets the variables it names, and defaults instead of the others', async () => {
  const repository = host.repository()
  repository.commit({
    '.service.yml': `manual:
  env: { B: default }
  deploy: [printf '%s\\n' "$B" >"$BERTH_SHARED_DIR/value"]
  services:
    one: { run: ${JSON.stringify(say('one'))}, variables: [A, MISSING] }
    two: { run: ${JSON.stringify(say('two'))} }
`,
  })
  const variables = { A: 'first-secret', B: 'second-secret', C: 'third-secret' }
  const { logs, variables: folder } = environmentPaths(host.settings, 1)
  for (const taskId of [1, 2]) {
    const deployment = await host.deploy(repository, { variables })
    const verdict = await deployment.verdict()
    expect(verdict.state, `${verdict.message} ${deployment.log()}`).toBe(AttemptState.SUCCEEDED)
    expect(deployment.log()).toContain('one lists variables that are not set: MISSING.')
    // the step wrote a value into a file, and the log of a service that does not get it masks it too
    expect(readLastLines(join(logs, 'one'), taskId)).toEqual([
      `one *** default none ${taskId}-one.sh`,
      '***',
    ])
    expect(readLastLines(join(logs, 'two'), taskId)).toEqual([
      `two *** *** *** ${taskId}.sh`,
      '***',
    ])
    const names = [`${taskId}-one.env`, `${taskId}-one.sh`, `${taskId}.env`, `${taskId}.sh`]
    expect(readdirSync(folder).sort()).toEqual(names)
  }
})
