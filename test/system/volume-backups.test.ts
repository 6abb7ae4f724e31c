// Backups of volumes on a real server with a real engine: what an archive holds, what a restore puts back, and that
// after every kind of failure the data of before is there and the services run.
import { randomUUID } from 'node:crypto'
import {
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { makeKeyPair } from '@berth/shared/storage'
import {
  AttemptState,
  type BackupPart,
  BackupPartKind,
  BackupPlace,
  FailureCode,
} from '@berth/shared/wire'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { pauseContainer } from '../../agent/src/machine/docker/containers.ts'
import { startExec } from '../../agent/src/machine/docker/exec.ts'
import { volumeName } from '../../agent/src/machine/docker/names.ts'
import { findVolumeFolder } from '../../agent/src/machine/docker/volumes.ts'
import { openEdge } from '../../agent/src/proxy/client.ts'
import { recoverDocker } from '../../agent/src/runner/docker/recover.ts'
import { makePostgresImage, POSTGRES_IMAGE } from '../fixtures/docker/images.ts'
import { DockerHost, httpd } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { startS3 } from '../fixtures/platform/s3.ts'
import { type Deployment, eventually, type Repository } from '../fixtures/server/deployment.ts'
import { type DeployRequest, isRoot } from '../fixtures/server/server.ts'

const YAML = `docker:
  services:
    web: { build: ., port: 8080, health: /, depends_on: [keeper] }
    keeper: { build: ., command: 'exec sleep 10000', stop_timeout: 1s, volumes: ['data:/data', 'more:/more'] }
  volumes: [data, more]
`

async function succeeds(deployment: Deployment): Promise<Deployment> {
  const verdict = await deployment.verdict()
  expect(verdict.state, deployment.log() + deployment.runnerLog()).toBe(AttemptState.SUCCEEDED)
  return deployment
}

interface Made {
  backupId: string
  environmentId: number
  place: BackupPlace
  parts: BackupPart[]
}

describe.skipIf(!dockerEngine() || missing('caddy') || !isRoot)('volumes', () => {
  let host: DockerHost
  let repository: Repository
  beforeAll(async () => {
    host = await DockerHost.open()
    repository = host.repository()
    repository.commit(httpd('one', { '.service.yml': YAML }))
    await succeeds(await host.run(repository))
  })
  afterAll(() => host.close())

  const idOf = async (service: string, environmentId = 1): Promise<string> => {
    const found = (await host.containers(environmentId)).find(
      ({ labels }) => labels['dev.berth.service'] === service,
    )
    return found?.id ?? ''
  }
  async function sh(command: string, service = 'keeper', environmentId = 1): Promise<string> {
    const said: Buffer[] = []
    const running = await startExec(host.engine, await idOf(service, environmentId), {
      argv: ['/bin/sh', '-c', command],
      directory: null,
      env: [],
      onOutput: (_, chunk) => void said.push(chunk),
    })
    await running.exited
    return Buffer.concat(said).toString().trim()
  }
  const folderOf = async (volume: string, environmentId = 1): Promise<string> => {
    const name = volumeName(host.settings, environmentId, volume)
    return (await findVolumeFolder(host.engine, host.settings, name)) ?? ''
  }
  const backupsOf = (id = 1): string => join(host.settings.stateDir, 'backups', `e${id}`)

  async function backUp(more: Partial<DeployRequest> = {}, live = false): Promise<Made> {
    const backupId = randomUUID()
    const task = { backupId, place: BackupPlace.SERVER, live }
    const done = await succeeds(await host.run(repository, { backup: task, ...more }))
    const [made] = done.bodies('backup')
    expect(made?.backupId).toBe(backupId)
    const environmentId = more.environmentId ?? 1
    return { backupId, environmentId, place: BackupPlace.SERVER, parts: made?.parts ?? [] }
  }
  const restore = (restored: Made, more: Partial<DeployRequest> = {}): Promise<Deployment> =>
    host.run(repository, { restore: restored, ...more })
  const states = async (): Promise<string[]> =>
    (await host.containers(1))
      .map(({ labels, state }) => `${labels['dev.berth.service']} ${state}`)
      .sort()
  const workOf = () => {
    const ledger = host.ledger()
    try {
      return ledger.dataWork.find(1)
    } finally {
      ledger.close()
    }
  }
  /** Nothing but the volume's content and finished backups is on the disk, and everything runs. */
  async function isSettled(): Promise<void> {
    for (const volume of ['data', 'more']) {
      expect(readdirSync(dirname(await folderOf(volume)))).toEqual(['_data'])
    }
    expect(readdirSync(backupsOf()).filter((name) => name.endsWith('.partial'))).toEqual([])
    expect(workOf()).toBeUndefined()
    expect(await states()).toEqual(['keeper running', 'web running'])
  }
  beforeEach(async () => {
    await sh('rm -rf /data/* /data/.[a-z]* /more/*')
  })

  it('archives every volume of one moment, and puts owners, modes, links and holes back', async () => {
    await sh(
      'mkdir -m 0711 /data/sub && echo first > /data/sub/file && chown 1234:4321 /data/sub/file',
    )
    await sh(
      'chmod 4750 /data/sub/file && ln -s /etc/passwd /data/out && ln /data/sub/file /data/again',
    )
    await sh(
      'mkfifo /data/pipe && dd if=/dev/zero of=/data/hole bs=1 count=0 seek=209715200 && echo more > /more/file',
    )
    const made = await backUp()
    expect(made.parts.map(({ file, kind, name }) => [file, kind, name])).toEqual([
      ['volume-data.tar.gz', BackupPartKind.VOLUME, 'data'],
      ['volume-more.tar.gz', BackupPartKind.VOLUME, 'more'],
    ])
    const folder = join(backupsOf(), made.backupId)
    expect(lstatSync(backupsOf()).mode & 0o777).toBe(0o700)
    expect(readdirSync(folder).sort()).toEqual([
      'manifest.json',
      'volume-data.tar.gz',
      'volume-more.tar.gz',
    ])
    expect(Number(made.parts[0]?.contentSize)).toBeLessThan(1_000_000) // a hole takes no space
    await isSettled()

    await sh('rm -rf /data/* && echo second > /data/new && echo changed > /more/file')
    const before = await idOf('keeper')
    const done = await succeeds(await restore(made))
    expect(Object.keys(done.steps())).toEqual(['prepare', 'stage', 'replace'])
    expect(done.log()).toMatch(/The data of the backup is in place, and the services are healthy/)
    expect(await sh('cat /data/sub/file /more/file; ls -A /data')).toBe(
      'first\nmore\nagain\nhole\nout\npipe\nsub',
    )
    const live = await folderOf('data')
    const file = statSync(join(live, 'sub/file'))
    expect([file.uid, file.gid, file.mode & 0o7777, file.nlink]).toEqual([1234, 4321, 0o4750, 2])
    expect(lstatSync(join(live, 'sub')).mode & 0o777).toBe(0o711)
    expect(lstatSync(join(live, 'out')).isSymbolicLink()).toBe(true)
    expect(lstatSync(join(live, 'pipe')).isFIFO()).toBe(true)
    const hole = statSync(join(live, 'hole'))
    expect(hole.size).toBe(200 * 1_024 ** 2)
    expect(hole.blocks * 512).toBeLessThan(1_000_000)
    expect(await idOf('keeper')).toBe(before)
    await isSettled()
  })

  it('pauses what uses the volumes, says for how long, and does not with --live', async () => {
    await sh('echo one > /data/file')
    const task = { backupId: randomUUID(), place: BackupPlace.SERVER }
    const done = await succeeds(await host.run(repository, { backup: task }))
    expect(done.log()).toMatch(/Paused for \d+ ms: keeper\. The files are those of one moment\./)
    const live = { ...task, backupId: randomUUID(), live: true }
    const other = await succeeds(await host.run(repository, { backup: live }))
    expect(other.log()).toContain('The services ran meanwhile, so files may not fit together.')
  })

  it('refuses a damaged, a short and a missing file before it stops anything', async () => {
    await sh('echo kept > /data/file')
    const made = await backUp()
    const file = join(backupsOf(), made.backupId, 'volume-data.tar.gz')
    const content = readFileSync(file)
    const refused = async (message: RegExp): Promise<void> => {
      const done = await restore(made)
      const verdict = await done.verdict()
      expect(verdict).toMatchObject({ code: FailureCode.RESTORE_FAILED, failedStepId: 'stage' })
      expect(verdict.message).toMatch(message)
      expect(done.log()).not.toContain('was stopped')
      expect(await sh('cat /data/file')).toBe('kept')
      await isSettled()
    }
    writeFileSync(file, Buffer.from(content.map((byte, at) => (at === 40 ? byte ^ 1 : byte))))
    await refused(/^volume-data\.tar\.gz of this backup is damaged: its hash is not/)
    truncateSync(file, content.length - 1)
    await refused(/is damaged: it has \d+ bytes instead of \d+\. Nothing was changed\.$/)
    rmSync(file)
    await refused(/^volume-data\.tar\.gz of this backup is missing\. Nothing was changed\.$/)
  })

  it('puts the data of before back when the services do not work with that of the backup', async () => {
    const health =
      "{ command: 'test ! -e /data/broken', start_period: 1s, interval: 1s, retries: 1 }"
    repository.commit(
      httpd('two', { '.service.yml': YAML.replace('keeper: {', `keeper: { health: ${health},`) }),
    )
    await sh('touch /data/broken && echo old > /data/file')
    const made = await backUp()
    await sh('rm /data/broken && echo new > /data/file')
    await succeeds(await host.run(repository))
    const verdict = await (await restore(made)).verdict()
    expect(verdict).toMatchObject({ code: FailureCode.RESTORE_FAILED, failedStepId: 'replace' })
    expect(verdict.message).toContain(
      'The data of before is back, and the services were started with it.',
    )
    expect(await sh('ls /data; cat /data/file')).toBe('file\nnew')
    await isSettled()
  })

  it('an attempt that is killed leaves the data of before, and everything runs again', async () => {
    await sh('echo old > /data/file')
    const made = await backUp()
    await sh('echo new > /data/file')
    const { engine, settings } = host
    const recover = async (): Promise<void> => {
      const ledger = host.ledger()
      await recoverDocker(
        { engine, settings, ledger, edge: openEdge(settings) },
        { environmentId: 1 },
      )
      ledger.close()
    }
    for (const at of ['Unpacked volume-more.tar.gz', 'keeper was stopped', 'keeper was started']) {
      const running = host.begin(repository, { restore: made })
      await eventually(() => running.hasSaid(at), at)
      running.child.kill('SIGKILL')
      await running.ended
      await recover()
      expect(await sh('cat /data/file'), at).toBe('new')
      await isSettled()
    }
    const backup = { backupId: randomUUID(), place: BackupPlace.SERVER }
    const making = host.begin(repository, { backup })
    await eventually(() => existsSync(join(backupsOf(), `${backup.backupId}.partial`)), 'a part')
    making.child.kill('SIGKILL')
    await making.ended
    await pauseContainer(engine, await idOf('keeper')) // as if it died while it archived
    const ledger = host.ledger()
    const work = ledger.dataWork.find(1)
    const name = (await host.containers(1)).find(
      ({ labels }) => labels['dev.berth.service'] === 'keeper',
    )
    if (work) ledger.dataWork.put(1, { ...work, paused: [name?.name ?? ''] })
    ledger.close()
    await recover()
    await isSettled()
  })

  it('restores into another environment of the server, and refuses what it does not have', async () => {
    await sh('echo from-one > /data/file')
    const made = await backUp()
    await succeeds(await host.run(repository, { environmentId: 2 }))
    await succeeds(await restore(made, { environmentId: 2 }))
    expect(await sh('cat /data/file', 'keeper', 2)).toBe('from-one')
    const parts = made.parts.map((part) => ({ ...part, name: 'elsewhere' }))
    const verdict = await (await restore({ ...made, parts })).verdict()
    expect(verdict.message).toMatch(/^The backup has volume elsewhere, which the deployed version/)
    await succeeds(await host.run(repository, { environmentId: 2, destroy: true }))
  })

  it('removes what retention ends after the new one, and everything with the environment', async () => {
    const first = await backUp()
    const backup = {
      backupId: randomUUID(),
      place: BackupPlace.SERVER,
      expired: [{ backupId: first.backupId, environmentId: 1, place: BackupPlace.SERVER }],
    }
    const done = await succeeds(await host.run(repository, { backup }))
    expect(Object.keys(done.steps()).at(-1)).toBe('prune')
    expect(done.bodies('backupsRemoved')).toMatchObject([{ backupIds: [first.backupId] }])
    const names = readdirSync(backupsOf())
    expect([names.includes(first.backupId), names.includes(backup.backupId)]).toEqual([false, true])
    await succeeds(await host.run(repository, { environmentId: 3 }))
    await backUp({ environmentId: 3 })
    await succeeds(await host.run(repository, { environmentId: 3, destroy: true }))
    expect(existsSync(backupsOf(3))).toBe(false)
  })

  it('says what has no data, and stops before the disk is full', async () => {
    const bare = host.repository('bare')
    bare.commit(httpd('bare'))
    await succeeds(await host.run(bare, { environmentId: 4 }))
    const backup = { backupId: randomUUID(), place: BackupPlace.SERVER }
    const none = await (await host.run(bare, { environmentId: 4, backup })).verdict()
    expect(none).toMatchObject({ code: FailureCode.BACKUP_FAILED })
    expect(none.message).toContain('names no volume and no backup command')
    await sh('echo kept > /data/file')
    const made = await backUp()
    const parts = made.parts.map((part) => ({ ...part, contentSize: 2n ** 60n }))
    const full = await (await restore({ ...made, parts })).verdict()
    expect(full).toMatchObject({ code: FailureCode.DISK_FULL, failedStepId: 'prepare' })
    expect(full.message).toMatch(/beside the present data .* Nothing was changed\.$/)
    expect(await sh('cat /data/file')).toBe('kept')
    await isSettled()
  })

  it('in a bucket: encrypted, checked, and refused with another key or signature', async () => {
    const s3 = await startS3('backups')
    const pair = await makeKeyPair()
    const text = (value: string): Uint8Array => Buffer.from(value)
    const { endpoint, region, accessKeyId } = s3
    const common = { endpoint, region, bucket: 'backups', prefix: 'berth/acme', accessKeyId }
    const secretAccessKey = text(s3.secretAccessKey)
    const making = { ...common, secretAccessKey, recipient: pair.recipient }
    const opening = { ...common, secretAccessKey, identity: text(pair.identity) }
    const objects = (): string[] =>
      readdirSync(s3.directory, { recursive: true })
        .map(String)
        .filter((name) => /_object$/.test(name))
    try {
      await sh('echo a-secret-of-the-volume > /data/file')
      const backup = { backupId: randomUUID(), place: BackupPlace.BUCKET }
      const wrong = { ...making, secretAccessKey: text('another') }
      const refused = await host.run(repository, { backup, backupStorage: wrong })
      const verdict = await refused.verdict()
      expect(verdict).toMatchObject({ code: FailureCode.BACKUP_FAILED, failedStepId: 'store' })
      expect(verdict.message).toMatch(
        /^The backup could not be stored at s3:\/\/backups\/berth\/acme\//,
      )
      expect(s3.refused()).toBeGreaterThan(0)
      expect([objects(), workOf()]).toEqual([[], undefined])

      const done = await succeeds(await host.run(repository, { backup, backupStorage: making }))
      const [made] = done.bodies('backup')
      expect(made?.parts[0]?.file).toBe('volume-data.tar.gz.age')
      expect(existsSync(join(backupsOf(), backup.backupId))).toBe(false)
      expect(objects()).toHaveLength(3)
      const said = done.log() + done.runnerLog()
      expect([said.includes(s3.secretAccessKey), said.includes(pair.identity)]).toEqual([
        false,
        false,
      ])
      const file = join(s3.directory, objects().find((name) => name.includes('volume-data')) ?? '')
      expect(readFileSync(file).subarray(0, 21).toString()).toBe('age-encryption.org/v1')

      await sh('echo changed > /data/file')
      const stored: Made = { ...backup, environmentId: 1, parts: made?.parts ?? [] }
      const other = await makeKeyPair()
      const keyless = { ...opening, identity: text(other.identity) }
      const locked = await (await restore(stored, { backupStorage: keyless })).verdict()
      expect(locked).toMatchObject({ code: FailureCode.RESTORE_FAILED, failedStepId: 'stage' })
      expect(locked.message).toMatch(/was encrypted for another key than that of this organization/)
      expect(await sh('cat /data/file')).toBe('changed')
      await isSettled()
      await succeeds(await restore(stored, { backupStorage: opening }))
      expect(await sh('cat /data/file')).toBe('a-secret-of-the-volume')
      await isSettled()

      const next = { backupId: randomUUID(), place: BackupPlace.BUCKET, expired: [stored] }
      await succeeds(await host.run(repository, { backup: next, backupStorage: making }))
      expect(objects().every((name) => name.includes(next.backupId))).toBe(true)
      rmSync(s3.directory, { recursive: true })
      const gone = { ...stored, backupId: next.backupId }
      const missingThere = await (await restore(gone, { backupStorage: opening })).verdict()
      expect(missingThere.code).toBe(FailureCode.RESTORE_FAILED)
      await isSettled()
    } finally {
      await s3.close()
    }
  })

  it('a database with a command: dumped, restored, and put back when the command fails', async () => {
    await makePostgresImage(host.settings.dockerSocket)
    const database = host.repository('database')
    const yaml = (restoring: string): string => `docker:
  services:
    db:
      image: ${POSTGRES_IMAGE}
      env: { POSTGRES_HOST_AUTH_METHOD: trust }
      volumes: ['pg:/var/lib/postgresql/data']
      health: { command: 'pg_isready -U postgres -h 127.0.0.1', start_period: 60s, interval: 1s }
      backup:
        command: pg_dump -Fc -U postgres -h 127.0.0.1 postgres
        restore: ${restoring}
  volumes: [pg]
`
    const good = 'pg_restore --clean --if-exists -U postgres -h 127.0.0.1 -d postgres'
    database.commit({ '.service.yml': yaml(good) })
    const run = (request: DeployRequest): Promise<Deployment> =>
      host.run(database, { environmentId: 5, ...request })
    await succeeds(await run({}))
    const psql = (sql: string): Promise<string> =>
      sh(`psql -qtA -U postgres -h 127.0.0.1 -c "${sql}"`, 'db', 5)
    await psql('create table t (n int); insert into t select generate_series(1, 1000)')
    const backup = { backupId: randomUUID(), place: BackupPlace.SERVER }
    const done = await succeeds(await run({ backup }))
    expect(Object.keys(done.steps())).toEqual(['prepare', 'command:db', 'finish'])
    const [made] = done.bodies('backup')
    expect(made?.parts).toMatchObject([
      { file: 'command-db.gz', kind: BackupPartKind.COMMAND, name: 'db' },
    ])
    const stored: Made = { ...backup, environmentId: 5, parts: made?.parts ?? [] }
    await psql('delete from t where n > 10')
    await succeeds(await run({ restore: stored }))
    expect(await psql('select count(*) from t')).toBe('1000')

    database.commit({
      '.service.yml': yaml(`psql -U postgres -h 127.0.0.1 -c 'drop table t' && false`),
    })
    await succeeds(await run({}))
    await psql('insert into t values (0)')
    const failed = await (await run({ restore: stored })).verdict()
    expect(failed).toMatchObject({ code: FailureCode.RESTORE_FAILED, failedStepId: 'replace' })
    expect(failed.message).toMatch(/exited with 1\. The data of before is back/)
    expect(await psql('select count(*) from t')).toBe('1001')
  })
})
