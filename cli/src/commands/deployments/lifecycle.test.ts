import { describe, expect, it } from 'vitest'
import { berth } from '../../testing/berth.ts'
import { startInstallation } from '../../testing/installation.ts'
import { problem } from '../../testing/peer.ts'
import { task } from '../../testing/samples.ts'

const HERE = ['-p', 'shop', '-e', 'pr-42']

describe.each(['restart', 'stop', 'start'])('berth %s', (verb) => {
  const POST = `POST /api/environments/101/${verb}`

  async function installation(more: object = {}) {
    const it = await startInstallation()
    it.peer.script(POST, { status: 201, json: task('queued', { type: verb, ...more }) })
    it.peer.script('GET /api/tasks/813', { json: task('succeeded', { type: verb, ...more }) })
    return it
  }

  it('asks for one service, and says how to watch it', async () => {
    const { peer, env } = await installation({ service: 'web' })
    const args = [verb, ...HERE, '-s', 'web', '-m', 'it leaks']
    const { code, stderr } = await berth(args, { env })
    expect(code).toBe(0)
    expect(stderr).toContain(`${verb} web of checkout-v2`)
    expect(stderr).toContain('Watch it with: berth tasks log 813 -f')
    const [request] = peer.asked(POST)
    expect(JSON.parse(request?.body ?? '')).toEqual({ service: 'web', message: 'it leaks' })
    expect(request?.headers['idempotency-key']).toMatch(/^[0-9a-f-]{36}$/)
  })

  it('waits for the end of the whole environment', async () => {
    const { peer, env } = await installation()
    const { code, stderr } = await berth([verb, ...HERE, '--wait'], { env })
    expect([code, peer.asked(POST)[0]?.body]).toEqual([0, '{}'])
    expect(stderr).toContain('task 813 succeeded')
  })

  it.each([
    [
      problem('deployment_in_progress', 'It is locked.', { task_id: 812, task_status: 'running' }),
      6,
      'a deployment is already running (task 812)',
    ],
    [
      problem('environment_protected', 'It is protected.', { owner: { id: 3, name: 'Grace' } }),
      6,
      `pr-42 is protected; only its owner (Grace) can ${verb} it`,
    ],
    [problem('not_deployed', 'It was never deployed.'), 6, 'berth deploy -p shop -e pr-42 --wait'],
    [problem('not_found', 'No such service.'), 5, "no service 'wep' in pr-42"],
    [{ status: 201, json: task('queued') }, 1, `task 813 is not the ${verb}`],
  ])('explains a refusal', async (reply, exit, message) => {
    const { peer, env } = await installation()
    peer.script(POST, reply)
    const { code, stderr } = await berth([verb, ...HERE, '-s', 'wep'], { env })
    expect(code).toBe(exit)
    expect(stderr).toContain(message)
  })
})
