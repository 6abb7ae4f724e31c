// Applications that keep data: Python with a PostgreSQL of its own and migrations, and one without containers whose
// uploads and database are files. What they stored is still there after a redeployment under visitors.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makePostgresImage, makePythonImage } from '../../fixtures/docker/images.ts'
import { dockerEngine, missing } from '../../fixtures/platform/components.ts'
import { Fixture } from '../../fixtures/server/installation.ts'
import { Application, NOTHING } from './application.ts'

const engine = dockerEngine()

describe.skipIf(!engine || missing('caddy') || missing('postgres'))(
  'applications with data',
  () => {
    let fixture: Fixture
    beforeAll(async () => {
      if (!engine) return
      await makePythonImage(engine.socket)
      await makePostgresImage(engine.socket)
      fixture = await Fixture.open({ docker: engine })
    })
    afterAll(() => fixture?.close())

    test('Python with PostgreSQL: migrations run once for each deployment, and rows stay', async () => {
      const application = await Application.open(fixture, 'python-postgres', { recipe: 'docker' })
      const { id } = await application.deploy()
      const log = (await fixture.log(id)).toString()
      expect(log.match(/applied 0001-visits/g)).toHaveLength(1)
      expect((await application.ask()).text).toBe('version one, visits: 1\n')
      expect((await application.ask('/releases')).text).toBe('version one, releases: 1\n')

      application.change('version', 'two')
      const redeploy = async (): Promise<void> => void (await application.deploy())
      const visits = await application.visitWhile(redeploy, (text) =>
        /version (one|two)/.test(text),
      )
      expect(visits.failed).toEqual([])
      const { text } = await application.ask()
      expect(text).toBe(`version two, visits: ${visits.good + 2}\n`)
      expect((await application.ask('/releases')).text).toBe('version two, releases: 2\n')

      expect((await application.destroy()).status).toBe('succeeded')
      expect(await fixture.owned()).toEqual(NOTHING)
    })

    test('without containers: uploads and a database in files stay', async () => {
      const application = await Application.open(fixture, 'manual-uploads', { recipe: 'manual' })
      await application.deploy()
      expect((await application.ask('/first', { method: 'PUT' }, 'hello')).text).toBe('saved\n')
      expect((await application.ask()).text).toBe('version one, pages: hello\n')

      application.change('version', 'two')
      const redeploy = async (): Promise<void> => {
        expect((await application.deploy()).warnings).toEqual([])
      }
      const visits = await application.visitWhile(redeploy, (text) =>
        /^version (one|two), pages: hello\n$/.test(text),
      )
      expect(visits.failed).toEqual([])
      expect((await application.ask()).text).toBe('version two, pages: hello\n')
      expect((await application.destroy()).status).toBe('succeeded')
    })
  },
)
