// `${service.api.url}` in a custom variable: each environment gets the address of its own service, an unknown service
// fails the deployment with a sentence, and what a value contains besides the address stays masked.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references in values, not placeholders of JavaScript
import { AttemptState, FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { lastSecrets } from '../../agent/src/runner/last-version.ts'
import type { LastPlan } from '../../agent/src/runner/plan/plan.ts'
import { DockerHost, httpd } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import type { Deployment } from '../fixtures/server/deployment.ts'
import { isRoot } from '../fixtures/server/server.ts'
import { ServiceFixture } from '../fixtures/server/service.ts'

const VARIABLES = {
  PLAIN: '${service.web.url}',
  MIXED: '${service.web.url}?token=hunter2-secret',
  LITERAL: '$${service.web.url}',
  SHELL: '${HOME}-kept-as-it-is',
}

async function succeeded(deployment: Deployment): Promise<Deployment> {
  const verdict = await deployment.verdict()
  const said = deployment.log() + deployment.runnerLog()
  expect([verdict.message, verdict.state], said).toEqual(['', AttemptState.SUCCEEDED])
  return deployment
}

describe('with the manual recipe', () => {
  let fixture: ServiceFixture
  beforeAll(async () => {
    fixture = await ServiceFixture.open()
  })
  afterAll(() => fixture.close())

  const commit = () =>
    fixture.repository.commit({
      '.service.yml': `manual:
  deploy:
    - echo "plain=$PLAIN mixed=$MIXED literal=$LITERAL shell=$SHELL"
    - printf %s "$MIXED" | wc -c
  services:
    web: { port: auto, run: exec ${fixture.host.node} server.mjs, health: /, env: { VERSION: one } }
    worker: { run: exec sleep 600 }
`,
    })

  it('each environment gets its own address', async () => {
    commit()
    const seen: string[] = []
    for (const environmentId of [1, 2]) {
      const request = { environmentId, variables: VARIABLES }
      const deployment = await succeeded(await fixture.host.deploy(fixture.repository, request))
      const log = deployment.log()
      const [, address = ''] = /plain=(http:\/\/\S+) mixed=/.exec(log) ?? []
      expect(log).toContain(`plain=${address} mixed=*** literal=`)
      expect(log).toContain(`\n${`${address}?token=hunter2-secret`.length}\n`)
      expect(log).not.toContain('hunter2')
      seen.push(address)
      const ledger = fixture.host.ledger()
      try {
        const plan = JSON.parse(ledger.findPlan(environmentId)?.body ?? '') as LastPlan
        const paths = environmentPaths(fixture.host.settings, environmentId)
        const masked = lastSecrets(paths, plan).map(String)
        // later tasks mask the secret, but not the address
        expect(masked).toContain(`${address}?token=hunter2-secret`)
        expect(masked).not.toContain(address)
        expect(masked).toContain('${service.web.url}')
        expect(masked).toContain('${HOME}-kept-as-it-is')
      } finally {
        ledger.close()
      }
    }
    expect(new Set(seen).size).toBe(2)
  })

  it('a service without an address fails the step and names key and services', async () => {
    commit()
    for (const service of ['worker', 'nothing']) {
      const variables = { API_URL: `\${service.${service}.url}/hunter2-path` }
      const deployment = await fixture.host.deploy(fixture.repository, { variables })
      const verdict = await deployment.verdict()
      expect([verdict.state, verdict.code]).toEqual([
        AttemptState.FAILED,
        FailureCode.CONFIG_INVALID,
      ])
      expect(verdict.message).toContain(`The variable API_URL asks for the address of ${service},`)
      expect(verdict.message).toContain('Services with an address: web.')
      expect(verdict.message + deployment.log()).not.toContain('hunter2')
    }
  })
})

describe.skipIf(!dockerEngine() || missing('caddy') || !isRoot)('with the docker recipe', () => {
  let host: DockerHost
  beforeAll(async () => {
    host = await DockerHost.open()
  })
  afterAll(() => host?.close())

  it('the containers get the address of their environment', { timeout: 180_000 }, async () => {
    const repository = host.repository()
    repository.commit(
      httpd('one', {
        Dockerfile:
          'FROM berth-test/busybox\nCMD ["/bin/sh", "-c", "echo plain=$PLAIN mixed=$MIXED; exec httpd -f -p $PORT"]\n',
        '.service.yml':
          'docker: { services: { web: { build: ., port: 8080, health: false, release: "echo r=$PLAIN m=$MIXED" } } }\n',
      }),
    )
    const deployment = await succeeded(await host.run(repository, { variables: VARIABLES }))
    const { port } = host.settings.proxy.http
    expect(deployment.log()).toMatch(new RegExp(`r=http://[a-z0-9.-]+:${port} m=\\*\\*\\*`))
    const variables = { API_URL: '${service.db.url}' }
    const failed = await host.run(repository, { variables })
    expect((await failed.verdict()).message).toContain('asks for the address of db,')
  })
})
