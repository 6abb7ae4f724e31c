// Credentials of image registries, of a project or of a whole organization. Passwords are written here, never shown.
import { useQuery } from '@tanstack/react-query'
import { api, change, trpc } from '../../api.ts'
import { ActButton } from '../../components/act.tsx'
import { Secret, Text } from '../../components/forms/field.tsx'
import { Form, text } from '../../components/forms/form.tsx'
import { Section } from '../../components/page.tsx'
import { Loaded } from '../../components/states.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'

type Owner = { project_id: number } | { organization_id: number }

export function Registries({ owner, reason }: { owner: Owner; reason: string | undefined }) {
  const query = useQuery(trpc.registry.list.queryOptions({ owner }))
  const isProject = 'project_id' in owner
  return (
    <Section title="Image registries">
      <p className="muted">
        For private images in <code>image:</code> and <code>FROM</code>.{' '}
        {isProject
          ? 'Those of the organization count too; the project’s own win.'
          : 'For every project; a project’s own credentials win.'}{' '}
        Environments of forks get none.
      </p>
      <Loaded query={query} what="Registries" lines={1}>
        {({ registries }) =>
          registries.length === 0 ? (
            <p>No credentials are stored.</p>
          ) : (
            <Table label="Registries" head={['Registry', 'User name', 'For', 'Updated', 'Change']}>
              {registries.map((r) => (
                <Row key={`${r.from} ${r.host}`}>
                  <Cell of="Registry">{r.host}</Cell>
                  <Cell of="User name" plain>
                    {r.username}
                  </Cell>
                  <Cell of="For" plain>
                    {r.from === 'project' ? 'This project' : 'All projects'}
                  </Cell>
                  <Cell of="Updated" plain>
                    <span>
                      <Time at={r.updated_at} /> by {r.updated_by.name}
                    </span>
                  </Cell>
                  <Cell of="Change" end>
                    {(r.from === 'project') === isProject && (
                      <ActButton
                        small
                        reason={reason}
                        label={`Remove ${r.host}`}
                        act={() => change(api.registry.remove.mutate({ owner, host: r.host }))}
                        done="Removed."
                      >
                        Remove
                      </ActButton>
                    )}
                  </Cell>
                </Row>
              ))}
            </Table>
          )
        }
      </Loaded>
      <Form
        submit="Save credentials"
        kind={isProject ? 'main' : 'plain'} // the organization's page has more forms
        done="Saved. They are used from the next deployment on."
        clears
        reason={reason}
        label="Credentials of a registry"
        send={(data) =>
          change(
            api.registry.set.mutate({
              owner,
              host: text(data, 'host'),
              username: text(data, 'username'),
              password: text(data, 'password'),
            }),
          )
        }
      >
        <Text
          label="Registry"
          name="host"
          hint="For example ghcr.io or registry.example.com:5000; Docker Hub is docker.io"
          required
        />
        <Text label="User name" name="username" maxLength={256} required />
        <Secret label="Password or token" name="password" required />
      </Form>
    </Section>
  )
}
