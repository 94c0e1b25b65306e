.PHONY: test-clients

test-clients: build ## one program per client library, and the HTTP middlewares (ONLY="redis-py Express")
	@tests/clients/run.py $(ONLY)
