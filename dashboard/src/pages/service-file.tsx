// The reference of .service.yml, also without login. The keys come from the schema that checks the file, and a test
// checks the examples.
import { EXAMPLES, type ListedKey, listKeys } from '@berth/shared/service-file-reference'
import { useQuery } from '@tanstack/react-query'
import { Page, Section } from '../components/page.tsx'
import { Loaded } from '../components/states.tsx'
import { Cell, Row, Table } from '../components/table.tsx'

const SCHEMA = '/schemas/service.v1.json'

/** The keys by the section that they belong to. */
async function readSchema(): Promise<Map<string, ListedKey[]>> {
  const answer = await fetch(SCHEMA)
  if (!answer.ok) throw new Error('The schema could not be read.')
  const keys = listKeys((await answer.json()) as Parameters<typeof listKeys>[0])
  return Map.groupBy(keys, ({ section }) => section)
}

export function ServiceFile() {
  const query = useQuery({
    queryKey: ['service-file-schema'],
    queryFn: readSchema,
    staleTime: Infinity,
  })
  return (
    <main id="main">
      <Page title=".service.yml">
        <p className="muted">
          The file is in the root of the repository. Berth reads it from the deployed commit. Write
          one with <code>berth config init</code>, check one with <code>berth config validate</code>
          ; editors read <a href={SCHEMA}>the schema</a>.
        </p>
        {EXAMPLES.map(({ title, text }) => (
          <Section key={title} title={title}>
            <pre>{text.trimEnd()}</pre>
          </Section>
        ))}
        <Loaded query={query} what="The keys">
          {(sections) =>
            [...sections].map(([section, keys]) => (
              <Section key={section} title={section === '' ? 'Every key' : section} isBare>
                <Table
                  label={section === '' ? 'Keys of the file' : `Keys of ${section}`}
                  head={['Key', 'Value', 'Meaning']}
                >
                  {keys.map((k) => (
                    <Row key={k.key}>
                      <Cell of="Key">
                        <code>{k.key}</code>
                      </Cell>
                      <Cell of="Value" plain>
                        {k.value}
                      </Cell>
                      <Cell of="Meaning" plain>
                        <span>
                          {k.description} <span className="muted">{k.fallback}</span>
                        </span>
                      </Cell>
                    </Row>
                  ))}
                </Table>
              </Section>
            ))
          }
        </Loaded>
        <p className="muted">
          Always set: SERVICE_DOMAIN, SERVICE_ENV_IDENTIFIER, SERVICE_ENV_TYPE, SERVICE_ENV_BRANCH,
          and the variables of the environment.
        </p>
      </Page>
    </main>
  )
}
