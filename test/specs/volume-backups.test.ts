// Backups of environments' data: tasks with rows, permissions and confirmation, what a server is sent, retention, the
// schedule and the storage of an organization. On both databases.
import { randomBytes } from 'node:crypto'
import type { Backup, BackupSettings, Environment, ScheduledRun, Task } from '@berth/shared/api'
import { BackupPartKind, BackupPlace, FailureCode } from '@berth/shared/wire'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { addMember } from '../fixtures/people/members.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import type { ScriptedAttempt } from '../fixtures/platform/scripted-executor.ts'

const SECRET = 'a-secret-access-key-of-storage'
const STORAGE = {
  endpoint: 'https://s3.example.com/',
  bucket: 'backups',
  prefix: 'berth',
  access_key_id: 'AKIA1',
  secret_access_key: SECRET,
}

describe.each(ENGINES)('backups on %s', (engine) => {
  let p: Platform
  let environment: Environment
  let seen: ScriptedAttempt[]
  beforeEach(async () => {
    p = await Platform.start(engine)
    environment = await p.environment('main')
    seen = []
    p.executor.script = perform
  })
  afterEach(() => p.close())

  function perform(attempt: ScriptedAttempt): void {
    const kind = attempt.assignment.spec?.kind
    if (kind?.case === 'deploy') attempt.serve([{ name: 'db' }])
    else seen.push(attempt)
    if (kind?.case === 'backup') {
      const { backupId, expired } = kind.value
      const part = {
        file: 'volume-data.tar.gz',
        kind: BackupPartKind.VOLUME,
        name: 'data',
        size: 1_000n,
        contentSize: 4_000n,
        sha256: randomBytes(32),
      }
      attempt.emit({ case: 'backup', value: { backupId, parts: [part] } } as never)
      const backupIds = expired.map((one) => one.backupId)
      attempt.emit({ case: 'backupsRemoved', value: { backupIds } } as never)
    }
    attempt.succeed()
  }
  const at = (more: string, of = environment): string => `/api/environments/${of.id}/${more}`
  const deploy = async (of = environment): Promise<void> => {
    const { body } = await p.deploy(of.id)
    expect((await p.settled(body.id)).status).toBe('succeeded')
  }
  const list = async (of = environment) =>
    (await p.cp.call<Backup[]>('GET', at('backups', of))).body
  async function make(body?: object): Promise<Backup> {
    const answer = await p.cp.call<Task>('POST', at('backups'), body)
    expect(answer.status, answer.text).toBe(201)
    expect((await p.settled(answer.body.id)).status).toBe('succeeded')
    const made = (await list()).find((one) => one.task_id === answer.body.id)
    if (!made) throw new Error('no backup was recorded')
    return made
  }
  const restore = (id: number, body: object = {}) =>
    p.cp.call<Task & Record<string, unknown>>('POST', `/api/backups/${id}/restore`, body)
  const lastKind = () => seen.at(-1)?.assignment.spec?.kind

  test('a backup is a task; its sizes and hashes come from the server and go back with a restore', async () => {
    expect((await p.cp.call('POST', at('backups'))).body).toMatchObject({ code: 'not_deployed' })
    await deploy()
    const made = await make({ live: true, message: 'before the sale' })
    expect(made).toMatchObject({
      environment: 'main',
      status: 'complete',
      place: 'server',
      location: null,
      live: true,
      size_bytes: 1_000,
      content_bytes: 4_000,
      parts: [{ file: 'volume-data.tar.gz', kind: 'volume', name: 'data' }],
      triggered_by: { name: 'Ada' },
    })
    expect(lastKind()).toMatchObject({
      case: 'backup',
      value: { backupId: made.uuid, place: BackupPlace.SERVER, live: true },
    })
    expect((await p.cp.call<Backup>('GET', `/api/backups/${made.id}`)).body).toEqual(made)
    const answer = await restore(made.id)
    expect(answer.body).toMatchObject({ type: 'restore', status: 'queued' })
    expect((await p.settled(answer.body.id)).status).toBe('succeeded')
    const kind = lastKind()
    expect(kind).toMatchObject({
      case: 'restore',
      value: { backup: { backupId: made.uuid, environmentId: environment.id } },
    })
    const [part] = kind?.case === 'restore' ? (kind.value.backup?.parts ?? []) : []
    expect(Buffer.from(part?.sha256 ?? []).toString('hex')).toBe(made.parts[0]?.sha256)
    expect(seen.map(({ secrets }) => secrets.backupStorage)).toEqual([undefined, undefined])
  })

  test('a failed backup is shown as failed, cannot be restored, and the next one removes what it left', async () => {
    await deploy()
    p.executor.script = (attempt) => attempt.fail('The disk is full.', 1, FailureCode.BACKUP_FAILED)
    const { body } = await p.cp.call<Task>('POST', at('backups'))
    expect((await p.settled(body.id)).failure?.code).toBe('backup_failed')
    const [failed] = await list()
    expect(failed).toMatchObject({ status: 'failed', parts: [] })
    expect((await restore(failed?.id ?? 0)).body).toMatchObject({
      code: 'backup_not_restorable',
      detail: 'This backup is not complete, so it cannot be restored.',
    })
    p.executor.script = perform
    const made = await make()
    expect(lastKind()).toMatchObject({ value: { expired: [{ backupId: failed?.uuid }] } })
    expect((await list()).map(({ id }) => id)).toEqual([made.id])
  })

  test('a restore of protected data is confirmed by name, by its owner', async () => {
    await deploy()
    const made = await make()
    await p.cp.call('PATCH', `/api/environments/${environment.id}`, { protected: true })
    const developer = await addMember(p.cp, 'Dora', 'developer')
    const path = `/api/backups/${made.id}/restore`
    const refused = await developer.call('POST', path, { confirm: 'main' })
    expect(refused.body).toMatchObject({ code: 'environment_protected' })
    // nor into an environment that they may change
    const other = await p.environment('preview')
    await deploy(other)
    const copied = await developer.call('POST', path, { environment_id: other.id })
    expect(copied.body).toMatchObject({ code: 'environment_protected' })
    expect((await restore(made.id)).body).toMatchObject({ code: 'confirmation_required' })
    expect((await restore(made.id, { confirm: 'other' })).body).toMatchObject({
      code: 'confirmation_required',
      confirm: 'main',
    })
    expect((await restore(made.id, { confirm: 'main' })).status).toBe(201)
    const viewer = await addMember(p.cp, 'Vera', 'viewer')
    expect((await viewer.call('GET', `/api/backups/${made.id}`)).status).toBe(200)
    expect((await viewer.call('POST', path)).status).toBe(403)
  })

  test('retention keeps by count and age, and never ends the newest', async () => {
    await deploy()
    const settings = at('backup-settings')
    expect((await p.cp.call<BackupSettings>('GET', settings)).body).toEqual({
      schedule: null,
      keep_count: 7,
      keep_days: null,
      place: 'server',
    })
    await p.cp.call('PATCH', settings, { keep_count: 2, keep_days: 10 })
    const [first, second, third] = [await make(), await make(), await make()]
    expect((await list()).map(({ id }) => id)).toEqual([third.id, second.id])
    expect((await p.cp.call('GET', `/api/backups/${first.id}`)).status).toBe(404)
    await p.cp.advance(11 * 86_400_000)
    const newest = await make()
    expect((await list()).map(({ id }) => id)).toEqual([newest.id])
  })

  test('a schedule makes backups, keeps a history, and survives a deployment', async () => {
    await deploy()
    const settings = at('backup-settings')
    const bad = await p.cp.call('PATCH', settings, { schedule: { cron: '61 * * * *' } })
    expect(bad.body).toMatchObject({ code: 'validation_failed' })
    const asked = { schedule: { cron: '30 * * * *', timezone: 'UTC' } }
    const { body } = await p.cp.call<BackupSettings>('PATCH', settings, asked)
    expect(body.schedule).toMatchObject({ next_run_at: expect.stringMatching(/:30:00Z$/) })
    await deploy()
    const due = Date.parse(body.schedule?.next_run_at ?? '')
    await p.cp.advance(due - p.cp.running.ctx.clock.now() + 1_000)
    const [made] = await list()
    expect((await p.settled(made?.task_id ?? 0)).trigger).toBe('schedule')
    expect((await p.cp.call<ScheduledRun[]>('GET', at('backup-runs'))).body).toMatchObject([
      { outcome: 'started', task_id: made?.task_id, task_status: 'succeeded' },
    ])
    const off = await p.cp.call<BackupSettings>('PATCH', settings, { schedule: null })
    expect(off.body.schedule).toBeNull()
    expect((await p.cp.call('GET', at('actions'))).body).toEqual([])
  })

  test('the storage of an organization: its keys go to servers only, and only with the task that needs them', async () => {
    await deploy()
    const storage = '/api/organizations/1/backup-storage'
    expect((await p.cp.call('POST', at('backups'), { place: 'bucket' })).body).toMatchObject({
      code: 'backup_storage_missing',
    })
    for (const endpoint of [
      'http://169.254.169.254',
      'ftp://s3.example.com',
      'https://u:p@s3.example.com',
    ]) {
      const refused = await p.cp.call('PUT', storage, { ...STORAGE, endpoint })
      expect(refused.status, endpoint).toBe(422)
    }
    const put = await p.cp.call<Record<string, unknown>>('PUT', storage, STORAGE)
    expect(put.status, put.text).toBe(200)
    expect(put.body).toMatchObject({ endpoint: 'https://s3.example.com', bucket: 'backups' })
    expect(put.text).not.toContain(SECRET)
    const made = await make({ place: 'bucket' })
    expect(made).toMatchObject({ place: 'bucket', location: 's3://backups/berth' })
    const sent = seen.at(-1)?.secrets.backupStorage
    expect(Buffer.from(sent?.secretAccessKey ?? []).toString()).toBe(SECRET)
    expect(sent?.recipient).toMatch(/^age1/)
    expect(sent?.identity).toHaveLength(0) // who makes a backup cannot read it

    // another key of the same storage keeps the pair that opens older backups
    await p.cp.call('PUT', storage, { ...STORAGE, access_key_id: 'AKIA2' })
    const { body } = await restore(made.id)
    await p.settled(body.id)
    const opened = seen.at(-1)?.secrets.backupStorage
    expect(opened?.recipient).toBe(sent?.recipient)
    expect(Buffer.from(opened?.identity ?? []).toString()).toMatch(/^AGE-SECRET-KEY-1/)

    const removed = await p.cp.call('DELETE', storage)
    expect(removed.body).toMatchObject({ code: 'backup_storage_used', backups: 1 })
    await p.cp.call('PUT', storage, { ...STORAGE, bucket: 'elsewhere' })
    expect((await restore(made.id)).body.detail).toBe(
      'This backup is at s3://backups/berth, and the organization now uses s3://elsewhere/berth.',
    )
  })

  test('backups on the disk go with their environment; those in a bucket stay for others', async () => {
    await deploy()
    await p.cp.call('PUT', '/api/organizations/1/backup-storage', STORAGE)
    const onDisk = await make()
    const inBucket = await make({ place: 'bucket' })
    const gone = await p.cp.call<Task>('DELETE', `/api/environments/${environment.id}`)
    await p.settled(gone.body.id)
    expect((await p.cp.call('GET', `/api/backups/${onDisk.id}`)).status).toBe(404)
    const project = `/api/projects/${environment.project_id}/backups`
    expect((await p.cp.call<Backup[]>('GET', project)).body).toMatchObject([
      { id: inBucket.id, environment: 'main', status: 'complete' },
    ])
    expect((await restore(inBucket.id)).status).toBe(404)
    const other = await p.environment('again')
    await deploy(other)
    expect((await restore(inBucket.id, { environment_id: other.id })).status).toBe(201)
  })
})
