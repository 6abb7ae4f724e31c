// Which other organizations may place environments on a server.
import { api, change } from '../../api.ts'
import { ActButton } from '../../components/act.tsx'
import { Text } from '../../components/forms/field.tsx'
import { Form, text } from '../../components/forms/form.tsx'
import { Section } from '../../components/page.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import type { Server } from '../../data.ts'
import { usePermission } from '../../organization.ts'

export function Sharing({ server: s }: { server: Server }) {
  const mayWrite = usePermission('server:write')
  if (!mayWrite && s.shared_with.length === 0) return null
  return (
    <Section title="Sharing">
      <p className="muted">
        Another organization that you name may place environments on this server. It sees the
        server’s name and state, and nothing of yours; you see nothing of its environments but their
        number.
      </p>
      {s.shared_with.length > 0 && (
        <Table label="Shared with" head={['Organization', 'Slug', 'Change']}>
          {s.shared_with.map(({ id, name, slug }) => (
            <Row key={id}>
              <Cell of="Organization" plain>
                {name}
              </Cell>
              <Cell of="Slug">{slug}</Cell>
              <Cell of="Change" end>
                {mayWrite && (
                  <ActButton
                    small
                    label={`Stop sharing with ${name}`}
                    act={() =>
                      change(api.server.unshare.mutate({ server_id: s.id, organization_id: id }))
                    }
                    done="No longer shared."
                  >
                    Stop sharing
                  </ActButton>
                )}
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      {mayWrite && (
        <Form
          submit="Share"
          done="Shared."
          label="Share"
          send={(data) =>
            change(
              api.server.share.mutate({
                server_id: s.id,
                organization: text(data, 'organization').trim(),
              }),
            )
          }
        >
          <Text
            label="Organization"
            name="organization"
            placeholder="acme"
            hint="Its slug or id."
            required
          />
        </Form>
      )}
    </Section>
  )
}
