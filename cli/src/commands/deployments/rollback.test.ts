import { describe, expect, it } from 'vitest'
import { berth } from '../../testing/berth.ts'
import { startInstallation } from '../../testing/installation.ts'
import { problem } from '../../testing/peer.ts'
import { environment, failedTask, SHA, task } from '../../testing/samples.ts'

const HISTORY = 'GET /api/environments/101/tasks'
const POST = 'POST /api/environments/101/tasks'
const ARGS = ['rollback', '-p', 'shop', '-e', 'pr-42']
const OLD = 'a'.repeat(40)
const OLDER = 'b'.repeat(40)

async function installation(...history: object[]) {
  const it = await startInstallation()
  it.peer.script(HISTORY, { json: history })
  it.peer.script(POST, { status: 201, json: task('queued', { commit_sha: OLD }) })
  return it
}

describe('berth rollback', () => {
  it('deploys the commit of the newest successful deployment that had another one', async () => {
    const { peer, env } = await installation(
      task('succeeded', { id: 812 }),
      task('succeeded', { id: 811 }),
      task('succeeded', { id: 810, commit_sha: OLD }),
      task('succeeded', { id: 809, commit_sha: OLDER }),
    )
    const { code, stdout, stderr } = await berth(ARGS, { env })
    expect([code, stdout]).toEqual([0, `813\tqueued\tshop\tpr-42\t${OLD}\t-\n`])
    expect(stderr).toContain('Rolling back to aaaaaaa of deployment 810')
    expect(stderr).toContain('until the next push or deployment of its branch')
    const { query } = peer.asked(HISTORY)[0] ?? {}
    expect([query?.get('status'), query?.get('type')]).toEqual(['succeeded', 'deploy'])
    const [request] = peer.asked(POST)
    expect(JSON.parse(request?.body ?? '')).toEqual({
      commit_sha: OLD,
      reuse_release: true,
      message: 'Rollback to deployment 810',
    })
    expect(request?.headers['idempotency-key']).toMatch(/^[0-9a-f-]{36}$/)
  })

  it('takes the named deployment, also one of the commit that runs', async () => {
    const { peer, env } = await installation()
    peer.script('GET /api/tasks/805', { json: task('succeeded', { id: 805 }) })
    const { code } = await berth([...ARGS, '805', '-m', 'coupons are broken'], { env })
    expect(code).toBe(0)
    expect(JSON.parse(peer.asked(POST)[0]?.body ?? '')).toEqual({
      commit_sha: SHA,
      reuse_release: true,
      message: 'coupons are broken',
    })
  })

  it.each([
    ['another environment', { environment_id: 5 }, 'task 805 is not a task of pr-42'],
    ['an action', { type: 'action' }, 'task 805 is not a deployment (action)'],
  ])('of %s it is refused, and nothing is started: 6', async (_, more, message) => {
    const { peer, env } = await installation()
    peer.script('GET /api/tasks/805', { json: task('succeeded', { id: 805, ...more }) })
    const { code, stderr } = await berth([...ARGS, '805'], { env })
    expect([code, peer.asked(POST)]).toEqual([6, []])
    expect(stderr).toContain(message)
    expect(stderr).toContain('berth tasks -p shop -e pr-42 --status succeeded')
  })

  it('of a failed deployment it is refused: 6', async () => {
    const { peer, env } = await installation()
    peer.script('GET /api/tasks/805', { json: failedTask({ id: 805 }) })
    const { code, stderr } = await berth([...ARGS, '805'], { env })
    expect([code, peer.asked(POST)]).toEqual([6, []])
    expect(stderr).toContain('task 805 did not succeed (failed): there is nothing to go back to')
  })

  it('without an earlier commit it is refused, and says what to do: 6', async () => {
    const { peer, env } = await installation(task('succeeded', { id: 812 }))
    const { code, stderr } = await berth(ARGS, { env })
    expect([code, peer.asked(POST)]).toEqual([6, []])
    expect(stderr).toContain(
      'no earlier deployment of pr-42 has another commit than c136499; there is nothing to go back to',
    )
    expect(stderr).toContain('berth deploy -p shop -e pr-42 --commit SHA')
    const path = 'GET /api/projects/12/environments'
    peer.script(path, { json: [environment({ commit_sha: null, deployed: null })] })
    peer.script(HISTORY, { json: [] })
    expect((await berth(ARGS, { env })).stderr).toContain('pr-42 was never deployed')
  })

  it.each([
    [
      problem('deployment_in_progress', 'It is locked.', { task_id: 812, task_status: 'running' }),
      'a deployment is already running (task 812)',
    ],
    [
      problem('environment_protected', 'It is protected.', { owner: { id: 3, name: 'Grace' } }),
      'pr-42 is protected; only its owner (Grace) can roll it back',
    ],
  ])('is refused where a deployment is: 6', async (reply, message) => {
    const { peer, env } = await installation(task('succeeded', { id: 810, commit_sha: OLD }))
    peer.script(POST, reply)
    const { code, stderr } = await berth(ARGS, { env })
    expect(code).toBe(6)
    expect(stderr).toContain(message)
  })
})
