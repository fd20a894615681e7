-- SPDX-License-Identifier: Apache-2.0
--
-- Ports of sandboxes that are reachable from outside, and who may use them.
--
-- Without a row a port is private: it needs a key of the project. `token` lets
-- in whoever has the port's token (kept as SHA-256 only), `public` everybody.
-- A row lives as long as its sandbox's record; what a row grants ends with the
-- sandbox itself, which the caller sees in port_lookup().observed.
--
-- Raised: CA404 no such sandbox, CA003 the sandbox is final, CA010 too many
-- ports.

SET LOCAL ROLE caisson_owner;

CREATE TABLE caisson.ports (
	sandbox      text NOT NULL
		REFERENCES caisson.sandboxes ON DELETE CASCADE,
	port         integer NOT NULL CHECK (port BETWEEN 1 AND 65535),
	tenant       text NOT NULL,
	project      text NOT NULL,
	access       text NOT NULL
		CHECK (access IN ('private', 'token', 'public')),
	token_sha256 bytea CHECK (length(token_sha256) = 32),
	generation   bigint NOT NULL DEFAULT 1,
	created_by   text NOT NULL,
	created_at   timestamptz NOT NULL DEFAULT now(),
	updated_at   timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (sandbox, port),
	CHECK ((access = 'token') = (token_sha256 IS NOT NULL))
);
ALTER TABLE caisson.ports ENABLE ROW LEVEL SECURITY;
CREATE POLICY api ON caisson.ports TO caisson_api
	USING (tenant = current_setting('caisson.tenant', true));
CREATE POLICY controller ON caisson.ports TO caisson_controller USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON caisson.ports TO caisson_api;
GRANT SELECT, DELETE ON caisson.ports TO caisson_controller;

-- The token is not in it: only its hash is known.
CREATE FUNCTION caisson.port_json(p caisson.ports) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object('sandbox', p.sandbox, 'port', p.port,
		'access', p.access, 'generation', p.generation,
		'created_by', p.created_by,
		'created_at', caisson.ts(p.created_at),
		'updated_at', caisson.ts(p.updated_at))
$$;

-- Open a port or change how it is open; p_token_sha256_hex only with access
-- token: a new token takes the place of the old one at once. Another access
-- forgets the token. created: there was no row before. At most 64 a sandbox.
CREATE FUNCTION caisson.port_set(p_tenant text, p_project text, p_ref text,
	p_port integer, p_access text, p_token_sha256_hex text, p_by text)
RETURNS TABLE (created boolean, sandbox text, port json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	s caisson.sandboxes;
	p caisson.ports;
BEGIN
	PERFORM caisson.scope(p_tenant);
	s := caisson.sandbox_find(p_project, p_ref);
	-- one at a time, so that the count below is exact
	SELECT * INTO s FROM caisson.sandboxes x WHERE x.id = s.id FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'no sandbox %', p_ref USING ERRCODE = 'CA404';
	END IF;
	IF caisson.is_final(s.observed) OR s.desired = 'deleted' THEN
		RAISE EXCEPTION 'sandbox % is %', s.id,
			caisson.sandbox_state(s) USING ERRCODE = 'CA003';
	END IF;
	INSERT INTO caisson.ports AS t (sandbox, port, tenant, project, access,
		token_sha256, created_by)
	VALUES (s.id, p_port, p_tenant, p_project, p_access,
		decode(p_token_sha256_hex, 'hex'), p_by)
	ON CONFLICT (sandbox, port) DO UPDATE
		SET access = excluded.access,
		    token_sha256 = excluded.token_sha256,
		    generation = t.generation + 1, updated_at = now()
	RETURNING * INTO p;
	IF (SELECT count(*) > 64 FROM caisson.ports t
		WHERE t.sandbox = s.id) THEN
		RAISE EXCEPTION '64 ports are open'
			USING ERRCODE = 'CA010';
	END IF;
	RETURN QUERY SELECT p.generation = 1, s.id, caisson.port_json(p);
END $$;

-- By number. No row at all: no such sandbox; port NULL: none is open.
CREATE FUNCTION caisson.port_list(p_tenant text, p_project text, p_ref text)
RETURNS TABLE (sandbox text, port json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	s caisson.sandboxes;
BEGIN
	PERFORM caisson.scope(p_tenant);
	s := caisson.sandbox_find(p_project, p_ref);
	IF s.id IS NULL THEN
		RETURN;
	END IF;
	RETURN QUERY SELECT s.id,
		CASE WHEN p.sandbox IS NOT NULL THEN caisson.port_json(p) END
		FROM (SELECT 1) one
		LEFT JOIN caisson.ports p ON p.sandbox = s.id
		ORDER BY p.port;
END $$;

-- Close: back to private, without a row. removed is false if there was none.
-- port: the row as it was. Raises CA404.
CREATE FUNCTION caisson.port_delete(p_tenant text, p_project text, p_ref text,
	p_port integer)
RETURNS TABLE (removed boolean, sandbox text, port json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	s caisson.sandboxes;
	p caisson.ports;
	v_found boolean;
BEGIN
	PERFORM caisson.scope(p_tenant);
	s := caisson.sandbox_find(p_project, p_ref);
	IF s.id IS NULL THEN
		RAISE EXCEPTION 'no sandbox %', p_ref USING ERRCODE = 'CA404';
	END IF;
	DELETE FROM caisson.ports t
		WHERE t.sandbox = s.id AND t.port = p_port RETURNING * INTO p;
	v_found := FOUND;
	RETURN QUERY SELECT v_found, s.id,
		CASE WHEN v_found THEN caisson.port_json(p) END;
END $$;

-- For the data listener, which is asked by PORT-ID. or by a header and does not
-- know the tenant yet: whose sandbox it is, who may use this port, and where
-- the sandbox lives. access is `private` without a row. The caller must check
-- access before it says anything about the sandbox. No row: no such sandbox.
CREATE FUNCTION caisson.port_lookup(p_sandbox text, p_port integer)
RETURNS TABLE (tenant text, project text, access text, token_sha256 text,
	observed text, desired text, node text, end_reason text,
	end_detail text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
	SELECT s.tenant, s.project, coalesce(p.access, 'private'),
		encode(p.token_sha256, 'hex'), s.observed, s.desired, s.node,
		s.end_reason, s.end_detail
	FROM caisson.sandboxes s
	LEFT JOIN caisson.ports p ON p.sandbox = s.id AND p.port = p_port
	WHERE s.id = p_sandbox
$$;

RESET ROLE;
