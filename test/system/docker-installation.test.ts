// The docker recipe in a whole installation of real processes: requested over HTTP, performed by a daemon, its runners,
// the edge and Caddy, and observed at the address that the API shows; drift, an earlier commit, an action, a removal.
import { execFile } from 'node:child_process'
import { request } from 'node:http'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Environment, Task } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { callEngine } from '../../scripts/docker-engine.ts'
import { smallApp } from '../fixtures/docker/app.ts'
import { deployed, dockerEnvironment } from '../fixtures/docker/docker-fixture.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { Fixture, until } from '../fixtures/server/installation.ts'

const ROOT = join(import.meta.dirname, '../..')
const engine = dockerEngine()
const ACTION = `actions:
  greet: { run: "echo hello from $SERVICE_ENV_IDENTIFIER" }
  first: { run: "echo first > /data/note" }
  second: { run: "echo second > /data/note" }
  show: { run: "cat /data/note" }
`

describe.skipIf(!engine || missing('caddy'))('docker in a whole installation', () => {
  let fixture: Fixture
  let environment: Environment
  const commits: string[] = []
  const files = (version: string): Record<string, string> => {
    const app = smallApp(version, ["volumes: ['data:/data']"])
    return { ...app, '.service.yml': `${app['.service.yml']}  volumes: [data]\n${ACTION}` }
  }
  const look = (): Promise<Environment> => fixture.get(`/api/environments/${environment.id}`)
  const page = async (): Promise<string> => {
    const { url } = await look()
    const host = new URL(url ?? '').host
    const asked = `http://127.0.0.1:${fixture.proxyPort}/index.html`
    return new Promise((resolve, reject) => {
      request(asked, { headers: { host }, agent: false }, (answer) => {
        let text = ''
        answer.setEncoding('utf8').on('data', (piece: string) => {
          text += piece
        })
        answer.on('end', () => resolve(text.trim()))
      })
        .on('error', reject)
        .end()
    })
  }
  const containers = async (): Promise<string[]> => {
    const filters = JSON.stringify({ label: [`dev.berth.environment=${environment.id}`] })
    const path = `/containers/json?filters=${encodeURIComponent(filters)}`
    const { text } = await callEngine(engine?.socket ?? '', 'GET', path)
    const all = JSON.parse(text) as { Id: string; Names: string[] }[]
    return all.filter(({ Names }) => Names[0]?.includes(fixture.accountPrefix)).map(({ Id }) => Id)
  }

  beforeAll(async () => {
    if (!engine) return
    fixture = await Fixture.open({ docker: engine })
    environment = await dockerEnvironment(fixture, 'whole', files('one'))
    commits.push((await deployed(fixture, environment.id)).commit_sha ?? '')
    fixture.repository('whole', files('two'))
    commits.push((await deployed(fixture, environment.id)).commit_sha ?? '')
  })
  afterAll(() => fixture?.close())

  test('answers at the address that the API shows', async () => {
    const { url, status, services } = await look()
    expect(url).toBe(`http://${environment.domain}:${fixture.proxyPort}`)
    expect([status, services.map(({ name }) => name)]).toEqual(['running', ['web']])
    expect(await page()).toBe('version two')
  })

  test('a container that somebody removes makes it degraded, a deployment mends it', async () => {
    const [id = ''] = await containers()
    await callEngine(engine?.socket ?? '', 'DELETE', `/containers/${id}?force=true`)
    const degraded = await until('it to be degraded', async () => {
      const now = await look()
      return now.status === 'degraded' ? now : undefined
    })
    expect(degraded.status_reason).toContain('web')
    await deployed(fixture, environment.id)
    await until('it to run again', async () => (await look()).status === 'running' || undefined)
    expect(await page()).toBe('version two')
  })

  test('an earlier commit comes back without a build', async () => {
    const path = `/api/environments/${environment.id}/tasks`
    const { id } = await fixture.post<Task>(path, { commit_sha: commits[0] })
    const task = await fixture.finished(id)
    expect([task.status, task.failure]).toEqual(['succeeded', null])
    expect((await fixture.log(id)).toString()).toMatch(/image of deployment \d+/i)
    expect(await page()).toBe('version one')
  })

  test('an action runs in its container', async () => {
    const path = `/api/environments/${environment.id}/actions/greet/tasks`
    const task = await fixture.finished((await fixture.post<Task>(path)).id)
    expect([task.status, task.failure]).toEqual(['succeeded', null])
    expect((await fixture.log(task.id)).toString()).toContain('hello from main')
  })

  test('its data is backed up and restored with the client', async () => {
    const act = async (name: string): Promise<string> => {
      const path = `/api/environments/${environment.id}/actions/${name}/tasks`
      const task = await fixture.finished((await fixture.post<Task>(path)).id)
      expect([task.status, task.failure]).toEqual(['succeeded', null])
      return (await fixture.log(task.id)).toString()
    }
    const berth = async (...args: string[]): Promise<string> => {
      const where = { BERTH_URL: fixture.url, BERTH_TOKEN: fixture.token, BERTH_PROJECT: 'whole' }
      const argv = ['cli/src/main.ts', 'backup', ...args]
      const env = { PATH: process.env.PATH ?? '', HOME: fixture.dir, TZ: 'UTC', ...where }
      const { stdout } = await promisify(execFile)(process.execPath, argv, { cwd: ROOT, env })
      return stdout
    }
    await act('first')
    await berth('create', '-e', 'main', '--wait')
    await act('second')
    const [id = '', , status] = (await berth('list', '-e', 'main')).trim().split('\t')
    expect(status).toBe('complete')
    await berth('restore', id, '--yes', '--wait')
    expect(await act('show')).toContain('first')
    expect(await page()).toBe('version one')
  })

  test('a removal leaves nothing', async () => {
    const answer = await fixture.call('DELETE', `/api/environments/${environment.id}`)
    const task = await fixture.finished(((await answer.json()) as Task).id)
    expect([task.status, task.failure]).toEqual(['succeeded', null])
    expect(await containers()).toEqual([])
  })
})
